"""The export for simulators that read how good a draft is, as NVIDIA's tools write it."""

from __future__ import annotations

from ..documents.speculation_profile import SpeculationProfile
from .notations import as_json
from .task import Export, Task
from .vllm import drawn_at_temperature

DIGITS = 6


class NvidiaProfile:
    """A `SpeculationProfile` of the chain that is planned, whose draft of fewer tokens is its
    beginning (`chain_analytic`)."""

    def export(self, task: Task) -> Export:
        choice = task.choose(drawn_at_temperature(task), even_slower=True)
        marginal = choice.chances
        rates = [round(each, DIGITS) for each in conditional(marginal)]
        length = round(1 + sum(marginal), DIGITS)
        content = SpeculationProfile(
            schema_version="1.0",
            measured=True,
            producer="espalier",
            method=task.method or "draft_model",
            num_speculative_tokens=choice.num_tokens,
            max_supported_k=choice.num_tokens,
            verification_method="longest_prefix",
            conditional_accept_rates=rates,
            marginal_accept_rates=[round(each, DIGITS) for each in marginal],
            mean_accept_length=length,
            accept_length_model="chain_analytic",
            accept_length_by_k={str(choice.num_tokens): length},
            measurement_conditions=conditions(task, choice.plan.verifier),
        )
        notes = [
            "a proposal (Model-Optimizer pull requests 2247 and 2313, open); draft_checkpoint and "
            "target_model, whose keys it leaves open, are not written, the names stand under "
            "measurement_conditions",
            "acceptance is what the profile measured, as it holds along this chain; "
            + ("" if task.method else "no run of an engine was measured, and ")
            + "no histogram is given",
        ]
        if len(rates) > 1 and len(set(rates)) == 1:
            notes.append("the profile tells no positions apart: one rate stands at all of them")
        return Export(as_json(content.model_dump()), choice.plan, notes)


def conditional(marginal: list[float]) -> list[float]:
    """P(each is accepted | those before it were); 0 behind one that never is."""
    before = [1.0, *marginal]
    return [now / then if then > 0 else 0.0 for then, now in zip(before, marginal, strict=False)]


def conditions(task: Task, verifier: str) -> dict[str, str | float | None]:
    """The circumstances under which the acceptance was measured, as far as they are known."""
    origin, sampling = task.plan.made_from, task.plan.sampling
    found: dict[str, str | float | None] = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "verifier": verifier,
        "target": origin.target.name if origin else None,
        "draft": task.draft or (origin.draft.name if origin else None),
        "profile_sha256": origin.profile_sha256 if origin else None,
    }
    seldom = {"min_p": (sampling.min_p, 0), "repetition_penalty": (sampling.repetition_penalty, 1)}
    return found | {name: value for name, (value, usual) in seldom.items() if value != usual}
