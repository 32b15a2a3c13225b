"""How good the embedded models are: `python -m runtime.embedded.training.evaluate`.

Perplexity on held-out files, and how often the target's next token is the draft's r-th guess, on
texts that the target writes after the held-out evaluation prompts.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from torch import nn

from .. import PAIRS, load_pair, load_prompts, load_tokenizer
from . import corpus
from .distil import TEMPERATURES, write_texts
from .recipe import RECIPES

NUM_RANKS = 8
ROWS = 16  # windows per forward pass


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m runtime.embedded.training.evaluate")
    parser.add_argument("--max-tokens", type=int, default=65_536, help="per held-out text")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="per prompt")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    models = {f"draft, {pair}": load_pair(pair)[1] for pair in PAIRS}
    models = {"target": load_pair()[0]} | models
    print("| model | held-out text | window | tokens | perplexity |\n|---|---|---|---|---|")
    for text, tokens in held_out_texts(options.max_tokens).items():
        for name, model in models.items():
            for length in (256, 1024):
                value, scored = perplexity(model, tokens, length)
                print(f"| {name} | {text} | {length} | {scored} | {value:.2f} |", flush=True)
    ranks = " | ".join(f"rank {rank}" for rank in range(NUM_RANKS))
    print(f"\n| draft | T | tokens | {ranks} | sum |\n|{'---|' * (NUM_RANKS + 4)}")
    for pair in PAIRS:
        target, draft = load_pair(pair)
        for temperature in TEMPERATURES:
            rates, count = acceptance(
                target, draft, temperature, num_tokens=options.max_new_tokens, seed=options.seed
            )
            ranked = " | ".join(f"{rate:.3f}" for rate in rates)
            total = f"{rates.sum():.3f}"
            print(f"| {pair} | {temperature} | {count} | {ranked} | {total} |", flush=True)


def held_out_texts(max_tokens: int) -> dict[str, np.ndarray]:
    """Held-out files as token streams (uint16), from the library and from the packages.

    The split goes by the hash of a file's text, so a file held out here was held out in training,
    whatever versions this machine has; a near copy of it in another version may not have been.
    """
    recipe = RECIPES["full"]
    files = corpus.collect(recipe.packages, max_bytes_per_source=recipe.max_bytes_per_source)
    tokenizer = load_tokenizer().backend_tokenizer
    sides: dict[str, list[corpus.SourceFile]] = {"standard library": [], "packages": []}
    for file in files:
        if file.held_out:
            inside = file.source == corpus.STANDARD_LIBRARY
            sides["standard library" if inside else "packages"].append(file)
    return {
        name: corpus.tokenise(side, tokenizer)[:max_tokens] for name, side in sides.items() if side
    }


@torch.no_grad()
def perplexity(model: nn.Module, tokens: np.ndarray, length: int) -> tuple[float, int]:
    """exp of the mean cross-entropy, and the number of tokens that it is the mean over.

    Disjoint windows of `length` tokens, in float32; their first tokens are not scored.
    """
    count = len(tokens) // length
    windows = torch.from_numpy(tokens[: count * length].astype(np.int64)).view(count, length)
    total = 0.0
    for ids in windows.split(max(1, ROWS * 256 // length)):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        total += nn.functional.cross_entropy(
            logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"
        ).item()
    scored = count * (length - 1)
    return math.exp(total / scored), scored


@torch.no_grad()
def acceptance(
    target: nn.Module, draft: nn.Module, temperature: float, *, num_tokens: int, seed: int
) -> tuple[np.ndarray, int]:
    """P(the target's next token is the draft's r-th likeliest), float64 [NUM_RANKS], and the number
    of tokens looked at: `num_tokens` behind each evaluation prompt.

    The target writes at the temperature in question. A rank's rate is the mean probability that
    the target, at that temperature, gives to the token of that rank; at 0 its likeliest is meant.
    """
    prompts = torch.tensor(load_prompts("evaluation"))
    ids = write_texts(
        target,
        prompts,
        length=prompts.shape[1] + num_tokens,
        temperatures=(temperature,),
        generator=torch.Generator().manual_seed(seed),
    )
    parts = []
    for rows in ids.split(ROWS):
        wanted, guesses = (
            model(input_ids=rows[:, :-1], use_cache=False).logits[:, prompts.shape[1] - 1 :]
            for model in (target, draft)
        )
        ranked = guesses.topk(NUM_RANKS).indices
        if temperature == 0:
            parts.append((ranked == wanted.argmax(-1, keepdim=True)).float().flatten(0, 1))
        else:
            probs = (wanted / temperature).softmax(-1)
            parts.append(probs.gather(-1, ranked).flatten(0, 1))
    rates = torch.cat(parts).double()
    return rates.mean(0).numpy(), len(rates)


if __name__ == "__main__":
    main()
