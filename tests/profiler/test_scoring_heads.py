"""A profile made with an acceptance head: its scores in recorded trees, its time in the costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from planner import PlannerError
from planner.documents.head_card import HeadFile
from planner.documents.sampling import Sampling
from planner.optimizer import solve
from planner.policies import StoppingDrafting
from planner.replay.replays import replays_of
from profiler import Pair, ScoringHead, Settings, measure_profile
from profiler.recording import Width
from profiler.target_texts import sample_continuations
from runtime.heads import AcceptanceHead
from runtime.heads.drafted_chains import chains_along
from runtime.heads.stopping_counts import threshold_counts
from runtime.randomness import seeded_source
from runtime.written import Written
from tests.runtime.heads_factory import agreeing_pair, random_texts, shape, table

GREEDY, WARM = Sampling(temperature=0), Sampling(temperature=1)
DEPTH = 5
FILE = HeadFile(file="head.safetensors", sha256="a" * 64)
PROMPTS = random_texts(5)[0]
SETTINGS = Settings(
    samplings=(GREEDY, WARM), contexts=(4,), max_nodes=8, num_tokens=20, num_ranks=3, repeats=2,
    width=Width(num_expanded=DEPTH + 1, num_children=1),
)  # fmt: skip


def opinionated_head() -> AcceptanceHead:
    """One that says very different things of different tokens."""
    head = AcceptanceHead(shape(), seed=3)
    with torch.no_grad():
        head.output.weight.normal_(std=0.6, generator=torch.Generator().manual_seed(5))
    return head.eval()


@pytest.fixture(scope="module")
def profile():
    heads = {GREEDY: ScoringHead(opinionated_head(), FILE)}
    return measure_profile(Pair(*agreeing_pair()), PROMPTS, SETTINGS, heads=heads)


def test_the_head_stands_in_the_trees_and_costs_of_its_sampling_only(profile):
    greedy, *warm = profile.replays
    assert greedy.head == FILE
    assert all(each.head is None for each in warm)
    scores = [profile.replayed(entry).features[:, -1] for entry in profile.replays]
    roots = profile.replayed(greedy).first[:-1]
    assert np.isnan(scores[0][roots]).all()
    assert all(np.isnan(each).all() for each in scores[1:])
    told = np.delete(scores[0], roots)
    assert (told >= 0).all()
    assert (told <= 1).all()
    assert told.std() > 0.1
    of_warm, costs = profile.costs
    assert (of_warm.sampling, costs.sampling, of_warm.scored) == (None, GREEDY, {})
    assert costs.growing.draft.counts == costs.draft.counts
    assert costs.growing.overhead.counts == [2, 4, 8]
    for chains in (costs.chains, costs.scored[FILE.sha256]):
        assert chains.draft_root.counts == chains.draft.counts == [1]
        assert chains.overhead.counts == [2, 4, 8]


def chains_of_texts():
    """The same head, asked along the same texts by the simulation that it is evaluated with."""
    target, draft = agreeing_pair()
    texts = sample_continuations(target, PROMPTS, GREEDY, SETTINGS.num_tokens, seed=0)
    for prompt, text in zip(PROMPTS, texts, strict=True):
        yield chains_along(
            Pair(target, draft), opinionated_head(), Written(prompt, text), GREEDY,
            depth=DEPTH, source=seeded_source(0, torch.device("cpu")),
        )  # fmt: skip


def test_scores_are_those_of_the_head_on_and_off_the_text(profile):
    """Temperature is 0, where drafted tokens are no matter of chance."""
    arrays = profile.replayed(profile.replays[0])
    tree, compared = 0, {True: 0, False: 0}
    for chains in chains_of_texts():
        factors = chains.factors["head"]
        for start in range(len(chains)):
            row, rejected = arrays.first[tree], None
            for place in range(start, min(start + DEPTH, len(chains) - 1)):
                if rejected is None and arrays.taken[row] != 0:
                    rejected = place
                child = arrays.child[row, 0]
                if child < 0:
                    break
                row = arrays.first[tree] + child
                expected = (
                    factors.on_text[place] if rejected is None
                    else factors.off_text[rejected, place - rejected]
                )  # fmt: skip
                assert arrays.features[row, -1] == pytest.approx(expected, abs=1e-5)
                compared[rejected is None] += 1
            tree += 1
    assert min(compared.values()) > 30


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8, 0.95])
def test_rounds_played_are_those_of_the_simulation(profile, threshold):
    drafting = StoppingDrafting(score="head", threshold=threshold, max_depth=DEPTH, head=FILE)
    tally = replays_of(profile, GREEDY, "topk").play(drafting)
    for place, chains in enumerate(chains_of_texts()):
        counts = threshold_counts(chains, "head", [threshold], DEPTH)
        assert tally.rounds[place] == counts.verified[0]
    assert tally.unknown.sum() == 0


def test_a_plan_can_stop_by_the_head(profile):
    plan = solve(profile, temperature=0.0, solver="specdecpp")
    assert plan.drafting.kind in ("stopping", "tree")
    settings = plan.drafting
    assert getattr(settings, "head", None) in (None, FILE)


def test_a_head_for_what_is_not_measured_is_refused():
    heads = {Sampling(temperature=0.3): ScoringHead(opinionated_head(), FILE)}
    with pytest.raises(PlannerError, match=r"trained for T=0\.3, expected one for T=0, T=1"):
        measure_profile(Pair(*agreeing_pair()), PROMPTS, SETTINGS, heads=heads)


def test_a_draft_that_shows_no_hidden_states_is_refused():
    from runtime import TableModel

    target = table(7, seed=0, order=1)
    draft = TableModel(target._table)
    few = replace(SETTINGS, num_ranks=2, max_nodes=4)
    with pytest.raises(PlannerError, match="does not show its hidden states"):
        measure_profile(
            Pair(target, draft), [[1, 2], [3, 4]], few,
            heads={GREEDY: ScoringHead(opinionated_head(), FILE)},
        )  # fmt: skip


def test_another_head_starts_another_measurement(tmp_path):
    """A measurement with one head is not continued with another."""
    pair, lines = Pair(*agreeing_pair()), []
    few = replace(SETTINGS, samplings=(GREEDY,), max_nodes=3, num_tokens=4, num_replayed=2)
    for sha256 in ("a" * 64, "a" * 64, "b" * 64):
        head = ScoringHead(opinionated_head(), FILE.model_copy(update={"sha256": sha256}))
        lines.append([])
        measure_profile(
            pair, PROMPTS[:2], few, heads={GREEDY: head}, output=tmp_path / "p.json",
            report_line=lines[-1].append,
        )  # fmt: skip
    assert [len(said) for said in lines] == [0, 1, 0]
