"""Planned settings against tuned ones on the same drafts, no grid tuned where it is judged."""

import numpy as np
import pytest

from benchmarks import knobs
from benchmarks.growing_times import best_of
from planner import PlannerError, Profile
from planner.documents.sampling import Sampling
from planner.estimates.step_costs import CHAINS, step_costs
from planner.optimizer.choice import rank_candidates
from planner.replay.replays import Played, replays_of

from .optimizer import factory
from .optimizer.recorded_trees import in_profile, made_up

LENGTHS = (70, 50, 60, 64)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Two profiles: the same costs, lower where chains grow than where trees do; other texts."""
    folder = tmp_path_factory.mktemp("profiles")
    rng = np.random.default_rng(0)
    rows = [rng.dirichlet([1.5, 0.5, 0.2, 0.8], size=60)[:, :3] for _ in range(6)]
    costs = factory.costs(
        verify=lambda n: 10 + n / 2, draft=lambda width: 0.5 + width / 32, counts=range(1, 33)
    )
    wide = {"widths": range(1, 33), "sizes": (2, 32)}
    costs = costs.model_copy(
        update={
            "growing": factory.growing_times(0.7, lambda w: 0.7 + w / 32, lambda n: 0.4, **wide),
            "chains": factory.growing_times(0.5, lambda w: 0.5, lambda n: 0.2),
        }
    )
    found = []
    for seed in (0, 1):
        replays = made_up(seed, lengths=LENGTHS, num_expanded=14)
        profile = in_profile(factory.profile([factory.traced(rows)], [costs]), replays)
        found.append(folder / f"{seed}.json")
        profile.save(found[-1])
    return found


@pytest.fixture(scope="module")
def rows(places):
    return {row.policy: row for row in knobs.rows_of(("plain", "", 0.6), *places)}


@pytest.mark.parametrize("policy", knobs.KNOBS)
def test_the_grid_is_tuned_on_the_other_half(places, rows, policy):
    row = rows[policy]
    profile, others = (Profile.load(place) for place in places)
    planned = best_of(rank_candidates(profile), policy)
    fields = knobs.KNOBS[policy]
    grid = knobs.grid_around(planned.drafting, policy)
    assert len(grid) == 1 + np.prod([len(values) for values in fields.values()])
    of_chains = policy == "specdecpp, no head"
    costs = step_costs(profile, verifier=planned.verifier)
    costs = costs.growing(CHAINS) if of_chains else costs.growing()
    replays = replays_of(others, Sampling(temperature=0.6), "rrsw")

    def spent(drafting, texts):
        """(tokens, milliseconds)"""
        played = Played(texts.play(drafting), costs)
        return played.tally.tokens.sum(), played.step.ms * played.tally.rounds.sum()

    def rate(drafting, texts):
        try:
            tokens, ms = spent(drafting, texts)
        except PlannerError:  # larger than what was timed
            return -np.inf
        return tokens / ms if texts.play(drafting).root_passes.any() else -np.inf

    mine = rate(planned.drafting, replays)
    rates = [rate(each, replays) for each in grid]
    assert row.num_settings == len(grid)
    assert row.over_best == pytest.approx(mine / max(rates) - 1)
    assert row.best == ", ".join(
        f"{getattr(grid[int(np.argmax(rates))], field):.3g}" for field in fields
    )
    half = [replays.half(which) for which in (0, 1)]
    tuned = [max(grid, key=lambda each, which=which: rate(each, half[which])) for which in (1, 0)]
    tokens, ms = np.sum([spent(each, part) for each, part in zip(tuned, half, strict=True)], axis=0)
    assert row.over_tuned == pytest.approx(mine / (tokens / ms) - 1)
    assert row.over_best <= 0 < row.over_tuned_error
    assert f"{row.over_tuned:+.1%}" in knobs.table([row])
    assert knobs.KnobsRow(**vars(row)) == row
