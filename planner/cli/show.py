"""`planner show`: a document for a person, in the terminal or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options

if TYPE_CHECKING:
    from ..show.document_text import Showable


@options.command(epilog=options.example("planner show plan.json --all"))
@click.argument("document", type=options.FILE)
@options.picture_option("Draw it into this file instead.")
@click.option("--all", "every", is_flag=True, help="Print all that there is to say.")
@click.option("--json", "as_json", is_flag=True, help="Print what is shown as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print its first table as CSV.")
@click.option("--temperature", type=float, help="Of a profile, show only this one.")
@click.option("--plans", is_flag=True, help="Of a profile, plan with every solver too.")
@click.option("--batch-size", type=int, help="Plan at this one; default: the first profiled.")
@click.option("--context", type=int, help="Plan at this one; default: the first profiled.")
def command(
    document: Path,
    png: Path | None,
    every: bool,
    as_json: bool,
    as_csv: bool,
    temperature: float | None,
    plans: bool,
    batch_size: int | None,
    context: int | None,
) -> None:
    """Show a PROFILE, PLAN, REPORT, CHECK or COSTS, a head, a speculation_profile.json, or all
    reports in a FOLDER.

    Five lines answer: what to do, what it gains, how sure that is, why, and what to type next.
    What was measured or chosen follows, in short; with --all in full, and with --plans which plans
    a profile allows.  Reports of a folder are laid side by side, measured over predicted.
    """
    from ..documents.profile import Profile

    content = _opened(document)
    conditions = (temperature, plans or None, batch_size, context)
    printed_profile = isinstance(content, Profile) and png is None
    if not printed_profile and any(value is not None for value in conditions):
        raise click.UsageError(
            "--temperature, --plans, --batch-size and --context say what of a profile to print"
            + ("" if isinstance(content, Profile) else f"; {document} is none")
        )
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms; name one")
    if png is not None:
        if every or as_json or as_csv:
            raise click.UsageError("--all, --json and --csv say how to print; --png draws")
        from ..show.figures import FIGURES, save_png

        if type(content) not in FIGURES:
            raise click.UsageError(f"--png: {document} is printed only")
        save_png(FIGURES[type(content)](content), png)
        options.say(f"wrote {png}")
        return

    from ..show.forms import FORMS

    if isinstance(content, Profile):
        from ..show.profile_view import profile_view

        question = None
        if plans or batch_size is not None or context is not None:
            from ..optimizer.choice import Question

            first = content.costs[0].batch_size
            size = first if batch_size is None else batch_size
            question = Question(batch_size=size, context=context)
        parts = profile_view(
            content, document, every=every, temperature=temperature, plans=question
        )
    else:
        from ..show.view import view

        parts = view(content, document, every=every)
    form = "json" if as_json else "csv" if as_csv else None
    click.echo(FORMS[form](parts))


def _opened(path: Path) -> Showable:
    """The content of the file, ours or another tool's, or the reports of the folder.

    Raises PlannerError.
    """
    from ..plans.files import load_reports, opened

    if path.is_dir():
        return load_reports(path)
    if path.suffix == ".safetensors":
        from runtime.heads import load_card

        return load_card(path)

    from ..documents.document import read_json
    from ..documents.speculation_profile import SpeculationProfile

    content = read_json(path)
    if "schema_version" in content:
        return SpeculationProfile.parse(content, str(path))
    return opened(content, path)
