"""Acceptance heads that are named on the command line, and where documents say that they lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..documents.document import PlannerError
from ..documents.head_card import HeadFile
from ..documents.sampling import Sampling
from ..plans.plan import Plan

if TYPE_CHECKING:
    from profiler import ScoringHead
    from runtime.language_model import LanguageModel


def scoring_heads(
    paths: Sequence[Path], draft: LanguageModel, folder: Path
) -> dict[Sampling, ScoringHead]:
    """The heads in these files, ready on the device of `draft`, by what they were trained for.

    folder  of the document that will name them

    Raises PlannerError for a file that is none, or made for another draft, and for two heads of
    the same sampling.
    """
    from profiler import ScoringHead
    from runtime.heads import file_sha256, load_card, load_head

    found: dict[Sampling, ScoringHead] = {}
    for path in paths:
        sampling = load_card(path).sampling
        if sampling in found:
            raise PlannerError(
                f"--head: got {found[sampling].file.file} and {path}, both trained for {sampling}; "
                "expected one for each temperature"
            )
        head = load_head(path, draft.info).to(draft.device)
        file = HeadFile(file=os.path.relpath(path, folder), sha256=file_sha256(path))
        found[sampling] = ScoringHead(head, file)
    return found


def head_beside(plan: Plan, profile: Path, output: Path | None) -> Plan:
    """`plan`, which names its head as seen from the profile's folder, as seen from its own."""
    head = plan.drafting.trained_head
    if head is None or output is None:
        return plan
    seen = os.path.relpath(profile.parent / head.file, output.parent)
    drafting = plan.drafting.model_copy(update={"head": head.model_copy(update={"file": seen})})
    return plan.model_copy(update={"drafting": drafting})
