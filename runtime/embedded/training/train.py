"""Trains the embedded models from the sources on this machine: `make train`.

Four stages, each resumed where it was interrupted when called again with the same --work:
tokenizer and token streams; the target; the texts it writes and the distilled draft; the plain
draft. Then everything is exported at once.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ...resumable import Checkpoint
from .. import DRAFT_DIRS, TARGET_DIR
from . import corpus
from .distil import OPENING, TEMPERATURES, distillation_loss, next_token_loss, write_texts
from .fit import Batch, Batches, Loss, fit
from .recipe import MAX_POSITIONS, RECIPES, Phase, Recipe, Training

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

SAMPLE_ROWS = 256  # texts written at once
TOKENS = "tokens.npy"


@dataclass(frozen=True)
class Material:
    """The material that every stage reads."""

    tokenizer: Tokenizer
    tokens: np.ndarray  # uint16 [num_tokens]: the training files, one after the other
    prompts: dict  # what prompts.json will hold


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.embedded.training.train", description=__doc__
    )
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="full")
    parser.add_argument("--work", type=Path, default=Path("build/embedded"), help="checkpoints")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parents[1], help="where to export"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    train(RECIPES[options.recipe], work=options.work, out=options.out)


def train(recipe: Recipe, *, work: Path, out: Path) -> None:
    """Run `recipe`, keeping checkpoints below `work`, and export models and prompts to `out`."""
    material = prepare(recipe, work)
    target = _new_model(recipe.target, recipe.seed, material)
    rows = _corpus_rows(material, recipe.seed)
    _fit(target, next_token_loss, recipe.target, rows, work / "target.pt")
    # The drafts learn from the weights that are exported.  `target.half().float()` would round the
    # rotary frequencies too.
    with torch.no_grad():
        for weight in target.parameters():
            weight.copy_(weight.half())

    distilled = _new_model(recipe.distilled, recipe.seed + 1, material)
    loss = distillation_loss(target)
    rows = _mixed_rows(material, recipe, _samples(recipe, material, target, work))
    _fit(distilled, loss, recipe.distilled, rows, work / "draft.pt")
    rows = _corpus_rows(material, recipe.seed + 4)
    _fit(distilled, loss, recipe.lengthened, rows, work / "draft_lengthened.pt")

    plain = _new_model(recipe.plain, recipe.seed + 2, material)
    rows = _corpus_rows(material, recipe.seed + 2)
    _fit(plain, next_token_loss, recipe.plain, rows, work / "draft_plain.pt")
    models = {TARGET_DIR: target, DRAFT_DIRS["distilled"]: distilled, DRAFT_DIRS["plain"]: plain}
    export(models, material, out)


def prepare(recipe: Recipe, work: Path) -> Material:
    """The corpus of `recipe`, tokenised; kept in `work`, so that resuming sees the same texts."""
    from tokenizers import Tokenizer

    work.mkdir(parents=True, exist_ok=True)
    if not (work / TOKENS).exists():
        _log("reading the sources")
        _prepare(recipe, work)
    return Material(
        Tokenizer.from_file(str(work / "tokenizer.json")),
        np.load(work / TOKENS),
        json.loads((work / "prompts.json").read_text()),
    )


def export(models: dict[str, LlamaForCausalLM], material: Material, out: Path) -> None:
    """Write float16 models, tokenizer and prompts below `out`, each file replaced at once."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as temporary:
        for name, model in models.items():
            folder = Path(temporary) / name
            copy.deepcopy(model).half().save_pretrained(folder)
            if name == TARGET_DIR:
                _save_tokenizer(material.tokenizer, folder)
        (Path(temporary) / "prompts.json").write_text(json.dumps(material.prompts) + "\n")
        for path in sorted(Path(temporary).rglob("*.*")):
            to = out / path.relative_to(temporary)
            to.parent.mkdir(exist_ok=True)
            path.chmod(0o644)
            os.replace(path, to)
    _log(f"exported to {out}")


def _prepare(recipe: Recipe, work: Path) -> None:
    files = corpus.collect(recipe.packages, max_bytes_per_source=recipe.max_bytes_per_source)
    tokenizer = corpus.train_tokenizer(files)
    owners = metadata.packages_distributions()
    profile, evaluation = corpus.draw_prompts(
        files,
        tokenizer,
        count=recipe.num_prompts,
        length=recipe.prompt_length,
        seed=recipe.seed,
        further=recipe.num_further,
    )
    prompts = {
        "profile": profile.prompts,
        "evaluation": evaluation.prompts,
        "provenance": {
            "text": "held-out files of the Python standard library, cleaned as in corpus.py",
            "python": platform.python_version(),
            "packages": {
                name: metadata.version(owners[name][0])
                for name in recipe.packages
                if name in owners
            },
            "profile_files": profile.files,
            "evaluation_files": evaluation.files,
        },
    }
    tokenizer.save(str(work / "tokenizer.json"))
    (work / "prompts.json").write_text(json.dumps(prompts))
    training = [file for file in files if not file.held_out]
    tokens = corpus.tokenise(training, tokenizer)
    _save_array(work / TOKENS, tokens)
    _log(f"{len(tokens)} tokens of {len(training)} files to learn from")


def _save_array(path: Path, array: np.ndarray) -> None:
    temporary = path.with_suffix(".part.npy")
    np.save(temporary, array)
    os.replace(temporary, path)


def _new_model(training: Training, seed: int, material: Material) -> LlamaForCausalLM:
    from transformers import LlamaForCausalLM

    torch.manual_seed(seed)
    end_id = material.tokenizer.encode(corpus.END_OF_TEXT).ids[0]
    return LlamaForCausalLM(training.config(end_id=end_id))


def _fit(model: nn.Module, loss: Loss, training: Training, batch: Batch, path: Path) -> None:
    losses = fit(model, loss, training, batch=batch, checkpoint=Checkpoint(path, every=50))
    _log(f"{path.stem}: {len(losses)} steps, final loss {np.mean(losses[-20:]):.3f}")


def _corpus_rows(material: Material, seed: int) -> Batch:
    batches = Batches(material.tokens, seed)
    return lambda phase, first_row, step: batches.rows(first_row, phase.rows, phase.length + 1)


def _mixed_rows(material: Material, recipe: Recipe, samples: Tensor) -> Batch:
    """Batches of corpus, a share of them replaced by the target's own texts.

    samples  int64 [num_samples, sample_length]; used where the phase is as short as they are
    """
    corpus_rows = _corpus_rows(material, recipe.seed + 1)

    def batch(phase: Phase, first_row: int, step: int) -> Tensor:
        rows = corpus_rows(phase, first_row, step)
        if phase.length > 2 * samples.shape[1]:
            return rows
        rng = np.random.default_rng([recipe.seed, step])
        count = round(phase.rows * recipe.sample_share)
        picks = torch.from_numpy(rng.choice(len(samples), count, replace=False))
        rows[:count, : samples.shape[1]] = samples[picks]
        return rows

    return batch


def _samples(recipe: Recipe, material: Material, target: nn.Module, work: Path) -> Tensor:
    """The texts written by the target, int64 [num_samples, sample_length]; kept in `work`."""
    kept = work / "samples.npy"
    if not kept.exists():
        generator = torch.Generator().manual_seed(recipe.seed)
        batches, texts = Batches(material.tokens, recipe.seed + 3), []
        for first in range(0, recipe.num_samples, SAMPLE_ROWS):
            count = min(SAMPLE_ROWS, recipe.num_samples - first)
            texts.append(
                write_texts(
                    target,
                    batches.rows(first, count, OPENING),
                    length=recipe.sample_length,
                    temperatures=TEMPERATURES,
                    generator=generator,
                )
            )
            _log(f"samples: {first + count}/{recipe.num_samples}")
        _save_array(kept, torch.cat(texts).numpy().astype(np.uint16))
    return torch.from_numpy(np.load(kept).astype(np.int64))


def _save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=corpus.END_OF_TEXT,
        eos_token=corpus.END_OF_TEXT,
        pad_token=corpus.END_OF_TEXT,
        model_max_length=MAX_POSITIONS,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
