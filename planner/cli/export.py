"""`planner export`: a plan as the engine takes it that one serves with."""

from __future__ import annotations

from pathlib import Path

import click

from ..plan import Plan
from ..profile import Profile
from ..schema import PlannerError, read_json, write_atomically
from .options import output_option, say

ENGINES = (
    "vllm", "vllm-tree", "sglang", "sglang-adaptive", "sglang-sps", "trtllm", "trtllm-tree",
    "medusa", "eagle", "llamacpp", "hf", "synthetic",
)  # fmt: skip
"""As in `planner.export`, which takes its time to import."""


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "engine",
    required=True,
    type=click.Choice(ENGINES),
    metavar="ENGINE",
    help=f"One of {', '.join(ENGINES)}.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="That the plan was made from (default: the one in the plan's folder, if it is there).",
)
@click.option("--draft", metavar="ID_OR_DIR", help="What the engine is to call the draft model.")
@output_option("settings")
def command(
    plan: Path, engine: str, profile: Path | None, draft: str | None, output: Path | None
) -> None:
    """Write PLAN as an engine takes it: a file of its settings, or flags for its command line.

    What the engine cannot carry out is planned anew for what it can, from the profile that the plan
    was made from.
    """
    decision = Plan.load(plan)
    facts = _profile_beside(decision, plan) if profile is None else Profile.load(profile)

    from ..display import exported
    from ..export import export

    result = export(decision, engine, profile=facts, draft=draft)
    if output is None:
        click.echo(result.content, nl=False)
    else:
        write_atomically(output, result.content)
        say(f"wrote {output}")
    for line in exported(decision, result.plan, engine, result.notes):
        say(line)


def _profile_beside(plan: Plan, path: Path) -> Profile | None:
    """The profile in the plan's folder that it was made from, under whatever name."""
    if plan.made_from is None:
        return None
    for file in sorted(path.parent.glob("*.json")):
        try:
            if read_json(file).get("format") != "profile":
                continue
            profile = Profile.load(file)
        except PlannerError:  # somebody else's, or a damaged one
            continue
        if profile.fingerprint() == plan.made_from.profile_sha256:
            say(f"planned from {file}")
            return profile
    return None
