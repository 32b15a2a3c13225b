"""Documents: round trips, strictness, atomic writes, and errors that a person can act on."""

import json
from hashlib import sha256

import jsonschema
import pytest

from planner import Plan, PlannerError, load, save
from planner.documents.document import write_atomically
from planner.plans.files import schema_json
from planner.verifiers import VERIFIERS, Verifier

from .samples import CONTENTS, optimal_content, plan_content, profile_content, report_content

KINDS = list(CONTENTS)


def write(path, content):
    path.write_text(json.dumps(content))
    return path


NOTHING = {"value": 0.0, "low": 0.0, "high": 0.0}


def predicted(reach: list[float] | None) -> dict:
    """A plan's prediction, of which only `reach` matters."""
    one = {"value": 1.0, "low": 1.0, "high": 1.0}
    names = ("tokens_per_step", "step_ms", "autoregressive_ms", "speedup")
    return dict.fromkeys(names, one) | {"reach": reach}


def fault(path) -> str:
    """The one line that loading `path` fails with."""
    with pytest.raises(PlannerError) as caught:
        load(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    return line.removeprefix(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_saved_documents_come_back_equal(kind, tmp_path):
    document = load(write(tmp_path / "in.json", CONTENTS[kind]()))
    assert document.format == kind
    save(document, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == document
    assert load(tmp_path / "out.json").fingerprint() == document.fingerprint()


def test_documents_written_before_they_said_by_whom_keep_their_fingerprint(tmp_path):
    """A plan cites its profile's, so it must not change with what is read later."""
    without = load(write(tmp_path / "in.json", plan_content()))
    assert without.written_by is None
    content = {key: value for key, value in without.model_dump(mode="json").items()
               if key != "written_by"}  # fmt: skip
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert without.fingerprint() == sha256(canonical.encode()).hexdigest()
    said = load(write(tmp_path / "said.json", plan_content() | {"written_by": "espalier 9"}))
    assert said.written_by == "espalier 9"
    assert said.fingerprint() != without.fingerprint()


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_accepts_what_is_written_and_nothing_else(kind, tmp_path):
    schema = json.loads(schema_json(kind))
    content = CONTENTS[kind]()
    save(load(write(tmp_path / "in.json", content)), tmp_path / "out.json")
    jsonschema.validate(json.loads((tmp_path / "out.json").read_text()), schema)
    for wrong in ({**content, "surplus": 1}, {**content, "version": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_version_format_and_keys_are_strict(kind, tmp_path):
    content = CONTENTS[kind]()
    path = tmp_path / "document.json"
    assert "version: got 2, expected 1" in fault(write(path, {**content, "version": 2}))
    assert "format: got 'poem'" in fault(write(path, {**content, "format": "poem"}))
    assert "surplus: unknown key" in fault(write(path, {**content, "surplus": 1}))
    for key in json.loads(schema_json(kind))["required"]:
        lacking = {name: value for name, value in content.items() if name != key}
        assert f"{key}: missing" in fault(write(path, lacking))


@pytest.mark.parametrize("kind", KINDS)
def test_of_another_format_or_version_nothing_else_is_said(kind, tmp_path):
    other = KINDS[KINDS.index(kind) - 1]
    path = write(tmp_path / "document.json", CONTENTS[kind]() | {"surplus": 1})
    with pytest.raises(PlannerError) as caught:
        type(load(write(tmp_path / "other.json", CONTENTS[other]()))).load(path)
    assert str(caught.value) == f"{path}: format: got {kind!r}, expected {other!r}"
    content = CONTENTS[kind]() | {"version": 2, "surplus": 1}
    assert fault(write(path, content)) == ": version: got 2, expected 1"
    assert "version: got True" in fault(write(path, content | {"version": True}))


@pytest.mark.parametrize("key", ["a\nb", "\x1b[31m", "\r"])
def test_a_key_with_control_characters_stays_on_one_line(key, tmp_path):
    line = fault(write(tmp_path / "plan.json", plan_content() | {key: 1}))
    assert line.isprintable()
    assert "unknown key" in line


def test_half_a_surrogate_pair_is_no_text(tmp_path):
    assert "no Unicode" in fault(
        write(tmp_path / "p.json", plan_content() | {"verifier": "\ud800"})
    )


def test_the_mark_before_utf_8_is_passed_over(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(plan_content()), encoding="utf-8-sig")
    assert load(tmp_path / "plan.json") == Plan.parse(plan_content(), "sample")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_truncated_files_say_so(kind, share, tmp_path):
    text = json.dumps(CONTENTS[kind]())
    path = tmp_path / "document.json"
    path.write_text(text[: int(share * len(text))])
    assert "truncated" in fault(path)


def test_files_that_are_no_documents(tmp_path):
    assert "no such file" in fault(tmp_path / "missing.json")
    assert "cannot be read" in fault(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in fault(tmp_path / "binary.json")
    for content, got in ([1, 2], "'[1, 2]'"), (None, "'null'"):
        assert f"got {got}, expected an object" in fault(write(tmp_path / "list.json", content))
    (tmp_path / "deep.json").write_text('{"format": ' + "[" * 200_000)
    assert "nested too deeply" in fault(tmp_path / "deep.json")
    for odd in ("zero\0byte.json", "x" * 5000):
        with pytest.raises(PlannerError, match=r"cannot be read"):
            load(odd)
        with pytest.raises(PlannerError, match=r"cannot be written"):
            write_atomically(odd, "text")
    with pytest.raises(PlannerError, match=r"^'\{\\n\}': no such file"):
        load("{\n}")
    (tmp_path / "twice.json").write_text('{"format": "plan", "format": "plan"}')
    assert "stands twice" in fault(tmp_path / "twice.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["drafting"].update(parents=[-1, 2, 0]), "drafting.parents: got [-1, 2, 0]"),
        (lambda c: c["drafting"].update(parents=[-1, 0, 1, 0]), "level order"),
        (lambda c: c["drafting"].update(parents="chain"), "drafting.parents: got 'chain'"),
        (lambda c: c["drafting"].update(kind="bush"), "drafting.kind: got 'bush'"),
        (lambda c: c.update(verifier="hope"), "expected verifier one of chain, naive"),
        (lambda c: c["sampling"].update(temperature=-1), "sampling.temperature: got -1"),
        (lambda c: c["sampling"].update(temperature=float("nan")), "sampling.temperature: got nan"),
        (lambda c: c["sampling"].update(temperature="hot"), "sampling.temperature: got 'hot'"),
        (lambda c: c["sampling"].update(top_p=0.0), "sampling.top_p: got 0.0"),
        (lambda c: c["sampling"].update(heat=1), "sampling.heat: unknown key"),
        (lambda c: c.update(predicted=predicted([1.0, 0.5])),
         "document: expected predicted.reach of 4 entries, one a node, not 2"),
        (lambda c: c.update(predicted=predicted([1.0, 0.5, -0.1, 0.1])),
         "predicted.reach.2: got -0.1"),
        (lambda c: c.update(predicted=predicted([0.0, 0.5, 0.1, 0.1])), "root above 0"),
        (lambda c: c.update(predicted=predicted(None) | {"step_ms": NOTHING}),
         "predicted: expected step_ms.low above 0, not 0.0"),
    ],
)  # fmt: skip
def test_wrong_values_in_a_plan_name_their_field(change, words, tmp_path):
    content = plan_content()
    change(content)
    assert words in fault(write(tmp_path / "plan.json", content))


GREEDY = {"kind": "dyspec-greedy", "num_nodes": 8, "max_depth": 4, "max_children": 2}
THRESHOLD = GREEDY | {"kind": "dyspec-threshold", "threshold": 0.1}
STOPPING = {"kind": "stopping", "score": "confidence", "threshold": 0.5, "max_depth": 4}


@pytest.mark.parametrize(
    "drafting", [GREEDY, THRESHOLD, STOPPING, {"kind": "dynamic", "max_depth": 4}]
)
def test_plans_whose_trees_grow_come_back_equal_and_fit_the_schema(drafting, tmp_path):
    content = plan_content() | {"drafting": drafting}
    plan = load(write(tmp_path / "in.json", content))
    assert plan.grows
    assert plan.speculates
    save(plan, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == plan
    jsonschema.validate(
        json.loads((tmp_path / "out.json").read_text()), json.loads(schema_json("plan"))
    )
    with pytest.raises(PlannerError, match=r"drafting.kind: got .*, expected 'tree'"):
        _ = plan.tree


@pytest.mark.parametrize(
    ("drafting", "verifier", "words"),
    [
        ({}, "rrsw", "drafting.kind: missing"),
        (GREEDY | {"num_nodes": 0}, "rrsw",
         "drafting.num_nodes: got 0, expected greater than or equal to 1"),
        (GREEDY | {"max_depth": 0}, "rrsw", "drafting.max_depth: got 0"),
        (GREEDY | {"threshold": 0.1}, "rrsw", "drafting.threshold: unknown key"),
        (THRESHOLD | {"threshold": 0.0}, "rrsw",
         "drafting.threshold: got 0.0, expected greater than 0"),
        (THRESHOLD | {"threshold": 1.0}, "rrsw",
         "drafting.threshold: got 1.0, expected less than 1"),
        (THRESHOLD | {"max_children": "all"}, "rrsw", "drafting.max_children: got 'all'"),
        (STOPPING | {"threshold": 1.5}, "rrsw",
         "drafting.threshold: got 1.5, expected less than 1"),
        (STOPPING | {"score": "luck"}, "rrsw", "drafting.score: got 'luck'"),
        (STOPPING | {"score": "head"}, "rrsw", "expected a head exactly where score is 'head'"),
        (GREEDY, "kseq", "one at a time (chain, naive, topk, rrs, rrsw, traversal)"),
        (GREEDY, "lookahead", "not 'lookahead'"),
        (GREEDY, "spechub", "not 'spechub'"),
        (GREEDY, "chain", "at most 1 children a node for verifier 'chain', not 2"),
    ],
)  # fmt: skip
def test_wrong_settings_of_growing_trees_name_their_field(drafting, verifier, words, tmp_path):
    content = plan_content() | {"drafting": drafting, "verifier": verifier}
    assert words in fault(write(tmp_path / "plan.json", content))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verifier": "chain"}, "at most 1 children a node for verifier 'chain', not 2"),
        ({"verifier": "luck"}, "expected verifier one of"),
        ({"tokens_per_step": 1e6}, "].tokens_per_step: got 1000000.0, expected less than"),
    ],
)
@pytest.mark.parametrize("by_batch", [False, True])
def test_settings_to_change_between_are_checked_too(change, words, by_batch, tmp_path):
    step = {"tokens_per_step": 2.0, "step_ms": 1.0, "depth": 1, "nodes": 4}
    way = {name: plan_content()[name] for name in ("drafting", "verifier")}
    table = [way | step | change, way | step]
    more = {"by_batch": [way | {"batch_size": 2, "settings": table}]} if by_batch else {}
    content = plan_content() | (more or {"settings": table})
    assert words in fault(write(tmp_path / "plan.json", content))


def test_tokens_without_a_draft_took_time(tmp_path):
    speedup = {"value": 1.5, "low": 1.4, "high": 1.6}
    baseline = {"num_tokens": 9, "ms_per_token": 0.0, "speedup": speedup}
    content = report_content() | {"baseline": baseline}
    words = "baseline.ms_per_token: got 0.0, expected greater than 0"
    assert words in fault(write(tmp_path / "report.json", content))


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_a_chain_may_end_early_with_every_verifier(verifier, tmp_path):
    for drafting in (STOPPING, GREEDY | {"max_children": 1}):
        content = plan_content() | {"drafting": drafting, "verifier": verifier}
        assert load(write(tmp_path / "plan.json", content)).verifier == verifier


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["costs"][0]["verify"]["median_ms"].__setitem__(1, float("nan")),
         "costs.0.verify.median_ms.1: got nan"),
        (lambda c: c["costs"][0]["draft"]["low_ms"].__setitem__(2, -0.1),
         "costs.0.draft.low_ms.2: got -0.1"),
        (lambda c: c["costs"][0]["draft"]["low_ms"].__setitem__(2, 0.0),
         "expected draft.low_ms above 0: every pass takes time"),
        (lambda c: c["costs"][0]["verify"]["counts"].reverse(), "strictly increasing"),
        (lambda c: c["costs"][0]["draft"]["high_ms"].__setitem__(2, 0.01),
         "low_ms <= median_ms <= high_ms"),
        (lambda c: c["costs"][0]["verify"]["counts"].pop(), "of one length"),
        (lambda c: c.update(costs=[]), "costs: got []"),
        (lambda c: c["acceptance"][0]["prompts"][0].update(acceptance=[0.9, 0.2]),
         "acceptance summing to at most 1, not 1.1"),
        (lambda c: c["acceptance"][0]["prompts"][0].update(acceptance=[0.9]),
         "of num_ranks = 2 entries, not 1"),
        (lambda c: c["acceptance"][0]["prompts"][0].update(acceptance=[1.5, 0.0]),
         "acceptance[rrsw, T=0.6].prompts.0.acceptance.0: got 1.5"),
        (lambda c: c["draft"].update(vocab_size=8), "one vocabulary for both models"),
        (lambda c: c["acceptance"][0].update(emitted="x"),
         "acceptance[rrsw, T=0.6].emitted: no array 'x'"),
    ],
)  # fmt: skip
def test_wrong_values_in_a_profile_name_their_field(change, words, tmp_path):
    content = profile_content()
    change(content)
    assert words in fault(write(tmp_path / "profile.json", content))


def test_a_spechub_like_limit_is_enforced_when_loading(monkeypatch):
    class Narrow(Verifier):
        """Serves two children at most."""

        max_children = 2

    monkeypatch.setitem(VERIFIERS, "narrow", Narrow())
    content = plan_content() | {"verifier": "narrow"}
    assert Plan.parse(content, "x").verifier == "narrow"
    content["drafting"] = {"kind": "tree", "parents": [-1, 0, 0, 0]}
    with pytest.raises(PlannerError, match="at most 2 children a node for verifier 'narrow'"):
        Plan.parse(content, "x")


def test_a_profile_may_hold_the_optimum_beside_its_acceptance(tmp_path):
    assert load(write(tmp_path / "without.json", profile_content())).optimal == []
    content = profile_content() | {"optimal": [optimal_content()]}
    profile = load(write(tmp_path / "in.json", content))
    assert profile.optimal[0].mean() == pytest.approx([1.75 / 3, 2.75 / 3])
    save(profile, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == profile
    jsonschema.validate(
        json.loads((tmp_path / "out.json").read_text()), json.loads(schema_json("profile"))
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda o: o["prompts"][1].update(acceptance=[0.75, 0.5]),
         "non-decreasing in the number of children, not 0.75 for 1 and 0.5 for 2"),
        (lambda o: o["prompts"][0].update(acceptance=[0.5, 1.5]),
         "optimal[without replacement, T=0.6].prompts.0.acceptance.1: got 1.5"),
        (lambda o: o["prompts"][0].update(acceptance=[0.5]), "num_children = 2 entries, not 1"),
        (lambda o: o["prompts"][0].update(num_positions=0),
         "optimal[without replacement, T=0.6].prompts.0.num_positions"),
        (lambda o: o.update(prompts=[]), "optimal[without replacement, T=0.6].prompts: got []"),
        (lambda o: o.update(replacement="no"), "optimal[T=0.6].replacement: got 'no'"),
        (lambda o: o.update(verifier="rrsw"),
         "optimal[rrsw, without replacement, T=0.6].verifier: unknown key"),
    ],
)  # fmt: skip
def test_wrong_values_in_an_optimum_name_their_field(change, words, tmp_path):
    optimal = optimal_content()
    change(optimal)
    assert words in fault(write(tmp_path / "p.json", profile_content() | {"optimal": [optimal]}))


def test_a_count_has_an_end(tmp_path):
    """What follows from a larger number would be no float any more."""
    content = profile_content()
    content["costs"][0]["verify"]["repeats"] = 10**18
    line = fault(write(tmp_path / "profile.json", content))
    assert "costs.0.verify.repeats: got 10" in line
    assert line.isprintable()
    content = profile_content()
    content["target"]["num_parameters"] = 10**400
    line = fault(write(tmp_path / "profile.json", content))
    assert "target.num_parameters: got inf, expected a valid integer" in line


def test_a_bound_is_of_no_more_positions_than_were_measured(tmp_path):
    content = profile_content() | {"optimal": [optimal_content()]}
    content["optimal"][0]["prompts"][1]["num_positions"] = 2
    line = fault(write(tmp_path / "profile.json", content))
    assert "optimal.0.prompts.1.num_positions of at most 1, as in acceptance, not 2" in line


def test_starts_of_an_engine_do_not_differ_beyond_reason(tmp_path):
    """Its square would be no float any more."""
    content = profile_content()
    content["costs"][0]["start_error"] = 1e300
    assert "costs.0.start_error: got 1e+300" in fault(write(tmp_path / "profile.json", content))
