"""Laws of the embedded models: they load, they fit together, and their recipe can be run again."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

import runtime.embedded
from planner import PlannerError
from planner.cli.models import NamedPair
from runtime.embedded import PAIRS, load_pair, load_prompts, load_tokenizer, pair_paths
from runtime.embedded.shape import Shape
from runtime.embedded.training import corpus
from runtime.embedded.training.distil import distillation_loss, next_token_loss, write_texts
from runtime.embedded.training.evaluate import perplexity
from runtime.embedded.training.fit import Batches, fit
from runtime.embedded.training.recipe import RECIPES, Phase, Training
from runtime.embedded.training.train import main as train_main
from runtime.resumable import Checkpoint

FOLDER = Path(runtime.embedded.__file__).parent
TINY = Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=40)


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


def cross_entropy(model: LlamaForCausalLM, prompts: list[list[int]]) -> float:
    with torch.no_grad():
        return next_token_loss(model, torch.tensor(prompts)).item()


# What is stored


def test_what_is_stored_is_small():
    stored = [path for end in ("json", "safetensors") for path in FOLDER.rglob(f"*.{end}")]
    assert len(stored) >= 3 * 3 + 2 + 1
    assert sum(path.stat().st_size for path in stored) < 16_000_000


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_shares_vocabulary_and_ends(pair, tokenizer):
    target, draft = load_pair(pair)
    assert target.config.num_hidden_layers > draft.config.num_hidden_layers == 1
    for model in (target, draft):
        assert model.config.vocab_size == len(tokenizer) == 2048
        assert model.config.max_position_embeddings == tokenizer.model_max_length == 1024
        assert not model.training
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}
        assert model.lm_head.weight is model.model.embed_tokens.weight
        for settings in (model.config, model.generation_config):
            assert settings.eos_token_id == settings.bos_token_id == tokenizer.eos_token_id


@pytest.mark.parametrize("pair", PAIRS)
def test_hugging_face_reads_the_same_models(pair):
    ids = torch.tensor(load_prompts()[:2])
    for model, path in zip(load_pair(pair), pair_paths(pair), strict=True):
        read = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        with torch.no_grad():
            assert torch.equal(read(ids).logits, model(ids).logits)


def test_the_target_writes_through_generate(tokenizer):
    target, _ = load_pair()
    ids = torch.tensor(load_prompts()[:1])
    out = target.generate(ids, max_new_tokens=7, do_sample=False)
    assert out.shape[1] <= ids.shape[1] + 7
    expected = write_texts(
        target,
        ids,
        length=out.shape[1],
        temperatures=(0.0,),
        generator=torch.Generator().manual_seed(0),
    )
    assert torch.equal(out[:, :66], expected[:, :66])
    assert tokenizer.decode(out[0]).startswith(tokenizer.decode(ids[0]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(x):\n    return x  # two\n\n\n",
        "\ttabs\r\nand\x00zeros \x7f",
        "  leading, trailing  ",
        "naïve 木 🜁 \u200b",
        "it 's , n't . ' \" !",
        "".join(map(chr, range(512))),
    ],
)
def test_text_survives_the_tokenizer(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.eos_token_id not in ids


def test_the_end_of_text_is_one_token(tokenizer):
    assert tokenizer.eos_token == tokenizer.bos_token == corpus.END_OF_TEXT
    assert tokenizer(corpus.END_OF_TEXT)["input_ids"] == [tokenizer.eos_token_id]
    assert tokenizer.decode([tokenizer.eos_token_id, 70], skip_special_tokens=True)[1:] == ""


def test_prompts_are_two_disjoint_sets(tokenizer):
    sets = {name: load_prompts(name) for name in ("profile", "evaluation")}
    for prompts in sets.values():
        assert np.array(prompts).shape == (64, 64)
        assert np.array(prompts).min() >= 0
        assert np.array(prompts).max() < len(tokenizer)
        assert tokenizer.eos_token_id not in np.array(prompts)
    further = {name: load_prompts(name, 256) for name in sets}
    assert all(further[name][:64] == prompts for name, prompts in sets.items())
    every = {tuple(prompt) for prompts in further.values() for prompt in prompts}
    assert len(every) == 512
    assert {len(prompt) for prompt in every} == {64}
    provenance = json.loads((FOLDER / "prompts.json").read_text())["provenance"]
    assert not set(provenance["profile_files"]) & set(provenance["evaluation_files"])


def test_the_target_beats_the_drafts_and_distilling_pays():
    ids = torch.tensor(load_prompts("evaluation"))
    target, distilled = load_pair("distilled")
    _, plain = load_pair("plain")
    with torch.no_grad():
        wanted, *guessed = (model(ids).logits for model in (target, distilled, plain))
    loss, of_draft = (
        torch.nn.functional.cross_entropy(each[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        for each in (wanted, guessed[0])
    )
    assert loss < 0.9 * of_draft
    agreed = [(each.argmax(-1) == wanted.argmax(-1)).float().mean() for each in guessed]
    assert agreed[0] > agreed[1] > 0.1


@pytest.mark.parametrize("call", [load_pair, pair_paths, load_prompts])
def test_unknown_names_are_refused_in_one_line(call):
    with pytest.raises(PlannerError, match=r"^got .*'large', expected one of .*$"):
        call("large")


# The corpus

SOURCE = '''# Copyright, all of it
# License: long

"""One line.

And many more.
"""

def f(x):
    """
    Summary below the quotes.

    More.
    """
    return (x,
            """kept:
            no docstring""")
'''


def test_cleaning_drops_heads_and_cuts_docstrings():
    text = corpus.clean((SOURCE + "name = other\n" * 60).encode())
    assert text.startswith('"""One line."""\n\ndef f(x):\n    """Summary below the quotes."""\n')
    assert '"""kept:\n            no docstring"""' in text
    assert "Copyright" not in text


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n",  # too short
        "def f(:\n" * 100,  # not Python
        "x = 'é'\n" * 100,  # not ASCII
        "# automatically generated\n" + "name = other\n" * 100,
        "t = [1234567890]\n" * 100,  # a table
    ],
)
def test_cleaning_refuses_what_is_no_good_to_learn_from(source):
    assert corpus.clean(source.encode()) is None
    assert corpus.clean(b"name = other\n" * 100) is not None


def test_prompts_start_lines_and_keep_to_files_of_one_side(tokenizer):
    texts = [
        "".join(f"value_{i}_{line} = [\n    {i * line}, 'x']\n" for line in range(90))
        for i in range(6)
    ]
    texts[1] = texts[0] + texts[1]  # passages of one file stand in another one too
    files = [corpus.SourceFile("python", f"{i}.py", text, True) for i, text in enumerate(texts)] + [
        corpus.SourceFile("python", "learnt.py", "learnt = 1\n" * 300, False)
    ]
    settings = {"count": 9, "length": 20, "seed": 1}
    drawn = corpus.draw_prompts(files, tokenizer.backend_tokenizer, **settings, further=20)
    for side in drawn:
        assert [len(prompt) for prompt in side.prompts] == [20] * 29
        for prompt in side.prompts:
            text = tokenizer.decode(prompt)
            origins = [f for f in files if f"\n{text}" in f"\n{f.text}"]
            assert all(origin.held_out for origin in origins)
            assert {origin.name for origin in origins} & set(side.files)
    every = [prompt for side in drawn for prompt in side.prompts]
    assert all(every.count(prompt) == 1 for side in drawn for prompt in side.prompts[9:])
    assert not set(drawn[0].files) & set(drawn[1].files)
    few = corpus.draw_prompts(files, tokenizer.backend_tokenizer, **settings)
    assert [side.prompts for side in few] == [side.prompts[:9] for side in drawn]
    with pytest.raises(PlannerError, match=r"got \d+ prompts from 6 held-out .* expected 10009;"):
        corpus.draw_prompts(files, tokenizer.backend_tokenizer, **settings, further=10_000)


# The training


@pytest.mark.parametrize("length", [1, 7, 64])
def test_an_epoch_meets_every_stretch_once(length):
    tokens = np.arange(1000, dtype=np.uint16)
    count = (1000 - length) // length
    rows = Batches(tokens, seed=3).rows(0, count, length)
    assert rows.shape == (count, length)
    assert len(set(rows.flatten().tolist())) == count * length
    assert torch.equal(rows, rows[:, :1] + torch.arange(length))
    again = torch.cat([Batches(tokens, seed=3).rows(i, 1, length) for i in range(count)])
    assert torch.equal(rows, again)
    assert not torch.equal(rows, Batches(tokens, seed=3).rows(count, count, length))


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path):
    tokens = np.random.default_rng(0).integers(2048, size=4000).astype(np.uint16)
    batches = Batches(tokens, seed=1)
    training = Training(TINY, (Phase(9, 2, 16), Phase(4, 1, 50)), 1e-2)

    def run(name: str, loss=next_token_loss) -> tuple[LlamaForCausalLM, list[float]]:
        torch.manual_seed(5)
        model = LlamaForCausalLM(training.config(end_id=0))
        losses = fit(
            model,
            loss,
            training,
            batch=lambda phase, first, step: batches.rows(first, phase.rows, phase.length + 1),
            checkpoint=Checkpoint(tmp_path / name, every=3),
        )
        return model, losses

    calls = []

    def interrupted(model, ids):
        calls.append(ids)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return next_token_loss(model, ids)

    whole, losses = run("whole.pt")
    with pytest.raises(KeyboardInterrupt):
        run("cut.pt", interrupted)
    resumed, resumed_losses = run("cut.pt", interrupted)
    assert len(calls) == 9 + 13 - 6  # on from the last checkpoint, that of step 6
    assert len(losses) == 13
    assert resumed_losses == losses
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name


def test_distilling_into_itself_costs_nothing():
    torch.manual_seed(0)
    target = LlamaForCausalLM(Training(TINY, (), 0.0).config(end_id=0)).eval()
    ids = torch.randint(2048, (3, 17))
    other = copy.deepcopy(target)
    assert abs(distillation_loss(target)(other, ids).item()) < 1e-6
    torch.nn.init.normal_(other.model.embed_tokens.weight)
    loss = distillation_loss(target)(other, ids)
    with torch.no_grad():  # the sum over the vocabulary, written out
        p, q = (model(ids[:, :-1]).logits.double().softmax(-1) for model in (target, other))
    expected = (p * (p / q).log()).sum(-1).mean().item()
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_perplexity_of_equal_odds_is_the_size_of_the_vocabulary():
    model = LlamaForCausalLM(Training(TINY, (), 0.0).config(end_id=0)).eval()
    torch.nn.init.zeros_(model.lm_head.weight)
    tokens = np.arange(2000, dtype=np.uint16)
    value, num_tokens = perplexity(model, tokens, 256)
    assert value == pytest.approx(2048)
    assert num_tokens == 7 * 255


def test_the_recipe_runs_end_to_end_and_again(tmp_path):
    recipe = RECIPES["smoke"]
    assert (
        sum(t.num_steps for t in (recipe.target, recipe.distilled, recipe.lengthened, recipe.plain))
        == 30
    )
    arguments = ["--recipe", "smoke", "--work", str(tmp_path / "work"), "--threads", "1"]
    train_main([*arguments, "--out", str(tmp_path / "one")])
    train_main([*arguments, "--out", str(tmp_path / "two")])  # all stages are there already
    names = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert [str(name) for name in names if name.suffix == ".safetensors"] == [
        "draft/model.safetensors",
        "draft_plain/model.safetensors",
        "target/model.safetensors",
    ]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "one" / "target")
    prompts = json.loads((tmp_path / "one" / "prompts.json").read_text())
    assert np.array(prompts["profile"]).shape == np.array(prompts["evaluation"]).shape == (6, 16)
    for name in ("target", "draft", "draft_plain"):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "one" / name)
        assert model.config.vocab_size == len(tokenizer)
        assert model.dtype == torch.float16
        assert cross_entropy(model.float(), prompts["profile"]) < np.log(2048)


def test_as_many_embedded_prompts_as_are_asked_for():
    pair = NamedPair("embedded/target", "embedded/draft", "cpu", None, "sdpa", None)
    counts = [len(pair.prompts("embedded/evaluation", limit)) for limit in (None, 3, 100)]
    assert counts == [64, 3, 100]
    with pytest.raises(PlannerError, match="got a count of 1000 prompts, expected 1 to 256"):
        pair.prompts("embedded/evaluation", 1000)
