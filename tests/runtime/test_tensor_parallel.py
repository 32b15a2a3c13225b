"""A model that is split over processes is the model that it is in one."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoConfig

from planner import Plan, PlannerError
from planner.cli import main, models
from planner.cli.models import NamedPair
from planner.documents.origin import Execution
from planner.documents.sampling import Sampling
from planner.plans.plan import MadeFrom
from runtime import Decoder, HuggingFaceModel, embedded, load_model, load_parallel
from runtime.language_model import PassInput
from runtime.machine import describe_execution
from runtime.processes import start
from runtime.tensor_parallel import (
    FollowedCache,
    Follower,
    TensorParallelModel,
    Told,
    _interruptions_wait,
    _rows,
)
from tests.runtime.small_models import VOCABULARY, plan, small_model
from tests.runtime.test_tree_passes import random_tree

FAMILIES = ["llama", "qwen2", "phi3"]
PROMPTS = [[5, 9, 2], [14, 3, 77, 8, 1, 6], [40], [7, 7, 21, 30]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Saved models by family, of which one's output layer is its embedding, and a draft."""
    folder = tmp_path_factory.mktemp("models")
    for seed, family in enumerate([*FAMILIES, "gpt2"]):
        model = even(small_model.__wrapped__(family, seed=seed))
        if family == "qwen2":
            model.config.tie_word_embeddings = True
            model.tie_weights()
        model.save_pretrained(folder / family)
    even(small_model.__wrapped__("llama", layers=1)).save_pretrained(folder / "draft")
    (folder / "wide").mkdir()
    AutoConfig.for_model("llama").save_pretrained(folder / "wide")  # of 32 heads
    for role in ("llama", "draft"):
        embedded.load_tokenizer().save_pretrained(folder / role)
    return folder


def even(model):
    """The same with a vocabulary that two processes can share, as older transformers ask for."""
    model.resize_token_embeddings(VOCABULARY + 1, mean_resizing=False)
    return model


@pytest.fixture(scope="module")
def split(folders):
    """Models of both families in two processes, in float64."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    models = {each: load_parallel(folders / each, 2, dtype="float64") for each in FAMILIES}
    yield models
    models["llama"].close()
    torch.set_num_threads(usual)


def whole(folders, family):
    return HuggingFaceModel(load_model(folders / family, dtype="float64").module)


def texts_and_trees(model):
    """Logits over two texts in turns, their trees kept in part, rewound, and both in one pass."""
    rng, found = np.random.default_rng(0), []
    caches = [model.new_cache(4), model.new_cache(4)]
    for num_nodes in (5, 1, 9):
        for cache in caches:
            text = torch.from_numpy(rng.integers(VOCABULARY, size=6))
            places = torch.arange(cache.length, cache.length + 6)
            found.append(model.forward(text, places, cache, num_logits=2))
            tree, length = random_tree(rng, num_nodes), cache.length
            nodes = torch.from_numpy(rng.integers(VOCABULARY, size=num_nodes))
            places = torch.from_numpy(length + tree.depths)
            found.append(model.forward(nodes, places, cache, torch.from_numpy(tree.ancestors)))
            cache.keep_rows(length, np.flatnonzero(tree.ancestors[num_nodes - 1]).tolist())
            cache.rewind(cache.length - 1)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_passes_and_fingerprints_are_those_of_one_process(folders, split, family):
    one = whole(folders, family)
    for got, expected in zip(texts_and_trees(split[family]), texts_and_trees(one), strict=True):
        assert got.shape == expected.shape
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    assert split[family].generation_config == one.generation_config
    got, expected = split[family].info, one.info
    assert got == expected.model_copy(update={"name": got.name})
    assert split[family].attention == f"{one.attention}, 2 processes"


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_texts_are_those_of_one_process_alone_and_in_batches(folders, split, temperature):
    draft, carried = load_model(folders / "draft", dtype="float64"), plan([-1, 0, 0, 1])
    carried = carried.model_copy(update={"sampling": Sampling(temperature=temperature)})
    found = []
    for target in (split["llama"], whole(folders, "llama")):
        decoder = Decoder.from_plan(carried, target, draft)
        alone = [decoder.generate(each, max_new_tokens=20, seed=1).tokens for each in PROMPTS]
        many = decoder.generate_batch(PROMPTS, max_new_tokens=20, seed=1)
        found.append((alone, [each.tokens for each in many]))
    assert found[0] == found[1]


def test_a_follower_does_with_its_caches_what_the_leader_told(folders):
    """One process after the other: what the leader notes, done by a follower that holds it all."""
    leader, model = Numbers(), whole(folders, "llama")
    caches = [FollowedCache(2, 4, leader) for _ in range(2)]
    follower, expected = Follower(leader), model.new_cache(4)
    follower.held[7] = model
    for length, rows in ((0, [5, 9, 2]), (3, [4]), (2, [8, 8])):
        for cache in caches:
            cache.rewind(length)
        expected.rewind(length)
        asked = (torch.tensor(rows), torch.arange(length, length + len(rows)))
        told = [_rows(PassInput(model, *asked, cache)) for cache in caches]
        follower.do(Told(7, told))
        model.forward(*asked, expected)
        for cache in caches:
            cache.append(len(rows))
            torch.testing.assert_close(kept(follower.held[cache.number]), kept(expected))
    follower.forget([caches[0].number])
    assert set(follower.held) == {7, caches[1].number}


def kept(cache):
    return cache.with_room(0, torch.zeros(0), (0, 0))[..., : cache.length, :]


class Numbers:
    """Numbers for what followers hold, as `Processes` gives them."""

    def __init__(self) -> None:
        self._count = itertools.count(20)

    def number_of(self, thing: object) -> int:
        return next(self._count)


def test_what_is_gone_here_the_others_forget(split):
    model = split["llama"]
    processes = model._processes
    cache = model.new_cache(4)
    model.forward(torch.tensor([1]), torch.arange(1), cache)
    number = cache.number
    del cache
    assert processes._gone == [number]
    model.forward(torch.tensor([1]), torch.arange(1), model.new_cache(4))
    assert number not in processes._gone


def test_a_model_is_loaded_while_another_thread_decodes(folders, split):
    model, over = split["llama"], threading.Event()

    def passes():
        while not over.is_set():
            model.forward(torch.tensor([1]), torch.arange(1), model.new_cache(1))

    with ThreadPoolExecutor(1) as other:
        going = other.submit(passes)
        again = load_parallel(folders / "llama", 2, dtype="float64")
        over.set()
        going.result()
    assert again.info == model.info


def test_a_model_is_closed_in_turn_not_amid_what_another_thread_tells():
    model, in_turn = TensorParallelModel.__new__(TensorParallelModel), []

    class Others:
        turn = threading.Lock()

        def end(self) -> None:
            in_turn.append(self.turn.locked())

    model._processes = Others()
    model.close()
    assert in_turn == [True]


def test_a_process_that_follows_and_fails_says_why_and_no_more():
    """It ends while a thread of its own still waits for the leader's end."""
    code = (
        "import sys, threading, time; from runtime.follower import _ends_with_its_leader as wait\n"
        "threading.Thread(target=wait, daemon=True).start(); time.sleep(0.2); sys.exit('error: x')"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stderr=pipe) as follower:
        assert follower.wait() == 1
        assert follower.stderr.read() == b"error: x\n"


@pytest.mark.usefixtures("split")
def test_a_folder_is_the_leaders_wherever_the_others_began(folders, monkeypatch):
    monkeypatch.chdir(folders)
    found = load_parallel("./qwen2", 2, dtype="float64")
    assert found.info.name == "./qwen2"
    token = torch.tensor([3]), torch.arange(1)
    expected = whole(folders, "qwen2")
    got = found.forward(*token, found.new_cache(1))
    torch.testing.assert_close(got, expected.forward(*token, expected.new_cache(1)))


@pytest.fixture
def interruptions():
    """What this process does with Ctrl-C can be set, and is then what it was."""
    before = signal.getsignal(signal.SIGINT)
    yield partial(signal.signal, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_an_interruption_waits_for_the_end_of_a_pass_and_a_second_one_does_not(interruptions):
    passed = []
    interruptions(signal.default_int_handler)

    def interrupted(times):
        with _interruptions_wait():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            passed.append(times)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
    assert passed == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interruptions(signal.SIG_IGN)
    interrupted(2)
    assert passed == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("nowhere/at/all", {}, "no such folder"),
        ("llama", {"dtype": "int8"}, "got dtype int8, expected float32, bfloat16 or float16"),
        ("llama", {"num_processes": 1}, "got 1, expected 2 processes or more"),
        ("gpt2", {"num_processes": 4}, "whose num_key_value_heads are 2; expected a divisor"),
        ("llama", {"device": "cpu:0"}, "got device cpu:0, expected cpu"),
        ("llama", {"num_processes": 3}, "llama, whose num_attention_heads are 4"),
        ("llama", {"attention": "best"}, "attention: got 'best'"),
    ],
)
@pytest.mark.usefixtures("split")
def test_what_cannot_be_split_is_refused_in_one_line(folders, name, settings, words):
    settings = {"num_processes": 2, **settings}
    with pytest.raises(PlannerError, match=re.escape(words)):
        load_parallel(folders / name, **settings)


def test_a_process_that_does_not_begin_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    words = "a process that was started has ended at once, with status 1; what it said is above"
    with pytest.raises(PlannerError, match=words):
        start(2, torch.device("cpu"))


def test_after_a_refusal_the_others_still_compute(folders, split):
    with pytest.raises(PlannerError, match="expected 2, over which another model is split"):
        load_parallel(folders / "wide", 4)
    with pytest.raises(
        PlannerError, match=r"gpt2: (cannot be loaded as a causal|got a gpt2 model)"
    ):
        load_parallel(folders / "gpt2", 2)
    assert torch.isfinite(one_token(split["llama"])).all()


def test_commands_split_the_target_of_a_saved_pair_only(folders, split):
    names = [str(folders / role) for role in ("llama", "draft")]
    pair = NamedPair(*names, "cpu", "float64", "sdpa", 1, tensor_parallel=2)
    target, draft = pair.load()
    assert describe_execution(target).tensor_parallel == 2
    assert describe_execution(draft).tensor_parallel is None
    again = replace(pair, target_memory=1.0)
    with pytest.raises(PlannerError, match="got --target-memory and --tensor-parallel"):
        again.load()
    embedded = NamedPair("embedded/target", names[1], "cpu", None, "sdpa", 1, tensor_parallel=2)
    with pytest.raises(PlannerError, match="got embedded/target, which is made in memory"):
        embedded.load()


@pytest.mark.parametrize(
    ("planned", "options", "told"),
    [
        ({"target_memory": 3.0}, {}, {"memory": 3.0}),
        ({"target_memory": 3.0}, {"tensor_parallel": 2}, {"num_processes": 2}),
        ({"target_memory": 3.0}, {"tensor_parallel": 1}, {"memory": 3.0}),
        ({"tensor_parallel": 2}, {}, {"num_processes": 2}),
        ({"tensor_parallel": 2}, {"target_memory": 3.0}, {"memory": 3.0}),
        ({"tensor_parallel": 2}, {"tensor_parallel": 1}, {}),
    ],
)
def test_an_option_replaces_the_plans_own_way_to_hold_the_target(
    monkeypatch, planned, options, told
):
    execution = Execution(dtype="float32", attention="sdpa", **planned)
    made_for = Plan.model_construct(made_from=MadeFrom.model_construct(execution=execution))
    found = []
    monkeypatch.setattr(models, "load_named", lambda name, **words: found.append(words))
    monkeypatch.setattr(models, "pair_names", lambda *names: ("a/target", "a/draft"))
    pair = NamedPair(None, None, "cpu", None, "auto", 1, made_for, **options)
    pair.load()
    ways = {word: found[0][word] for word in ("memory", "num_processes")}
    assert {word: way for word, way in ways.items() if way is not None} == told


def test_a_process_that_is_killed_is_one_line_and_leaves_nobody_behind(folders, split):
    """The last test of the processes of `split`, one of which it kills."""
    first = split["llama"]
    expected = one_token(first)
    first._processes._children[0].kill()
    with pytest.raises(PlannerError, match="have ended, as one of them failed; load it again"):
        one_token(first)
    words = "target: the processes that it is split over have ended; load it again"
    with pytest.raises(PlannerError, match=f"^{words}$"):
        one_token(first)
    again = load_parallel(folders / "llama", 2, dtype="float64")
    assert torch.equal(one_token(again), expected)
    (follower,) = again._processes._children
    follower.stdin.close()  # as the system closes it where this process is killed
    assert follower.wait(timeout=60) == 0
    again.close()


def one_token(model):
    return model.forward(torch.tensor([3]), torch.arange(1), model.new_cache(1))


def test_under_torchrun_the_first_process_decodes_and_the_others_follow(folders, tmp_path):
    path = tmp_path / "plan.json"
    plan([-1, 0, 0, 1]).save(path)
    (tmp_path / "prompts.jsonl").write_text('{"ids": [5, 9, 2]}\n')
    command = [
        "decode", path, "--target", folders / "llama", "--draft", folders / "draft",
        "--prompts", tmp_path / "prompts.jsonl", "--max-new-tokens", "12",
    ]  # fmt: skip
    command = [str(each) for each in command]
    torchrun = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "planner"]
    ran = subprocess.run(
        [sys.executable, "-m", *torchrun, *command],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    texts = [CliRunner().invoke(main, command).stdout, ran.stdout]
    one, two = (json.loads(text)["continuations"][0]["tokens"] for text in texts)
    assert one == two
