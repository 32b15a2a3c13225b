"""`planner predict`: costs of a machine that is not at hand, by its data sheet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from . import options
from .machine_options import POSITIVE, MachineWishes, machine_options

OF_PREDICTIONS = (
    "target", "draft", "batch_sizes", "contexts", "max_nodes", "overhead_ms", "acceptance_from",
    "acceptance", "exponent", "num_ranks", "temperature",
)  # fmt: skip
"""Parameters that mean nothing to --check: models and places are those that were measured."""


@options.command(
    epilog=options.example("planner predict --gpu H100 --target TARGET --draft DRAFT -o costs.json")
)
@click.argument("profiles", type=options.FILE, nargs=-1, metavar="[PROFILE]...")
@machine_options
@click.option("--target", metavar="ID_OR_DIR", help="Its config.json is read, no weights.")
@click.option("--draft", metavar="ID_OR_DIR", help="Likewise.")
@options.setting(
    "--batch-size", "batch_sizes", type=click.IntRange(1), multiple=True, default=(1,),
    show_default=True,
)  # fmt: skip
@options.setting(
    "--context", "contexts", type=click.IntRange(0), multiple=True, default=(128,),
    show_default=True, help="Tokens in the cache.",
)  # fmt: skip
@options.setting("--max-nodes", type=click.IntRange(1, 4096), default=256, show_default=True)
@options.setting(
    "--overhead-ms", type=options.Number(0), default=0.0, show_default=True,
    help="All else that a step takes.",
)  # fmt: skip
@click.option(
    "--acceptance-from", type=options.FILE, metavar="PROFILE",
    help="Write a profile, with the acceptance that this one measured.",
)  # fmt: skip
@click.option(
    "--acceptance", type=float, metavar="CHANCE",
    help="Write a profile, with this chance that a first child is accepted.",
)  # fmt: skip
@click.option(
    "--exponent", type=POSITIVE, metavar="B",
    help="Beside --acceptance: the chance that all of k children are rejected falls as 1/k^B.",
)  # fmt: skip
@click.option(
    "--num-ranks", type=click.IntRange(1, 1024), default=16, show_default=True,
    help="Children of a node, at most, that --acceptance is for.",
)  # fmt: skip
@click.option(
    "--temperature", type=options.Number(0, min_open=True), default=0.6, show_default=True,
    help="That --acceptance is for.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Print predicted times beside those in PROFILEs.")
@options.output_option("costs, or the profile")
def command(
    profiles: tuple[Path, ...],
    target: str | None,
    draft: str | None,
    acceptance_from: Path | None,
    acceptance: float | None,
    exponent: float | None,
    num_ranks: int,
    temperature: float,
    check: bool,
    output: Path | None,
) -> None:
    """Predict costs by what a machine does at best, for planner solve --costs.

    A pass takes as long as reading the weights and the cache, or as computing, whichever is longer,
    at the speeds that the machine's maker prints.  Real passes take longer: --check says by how
    much, where somebody has measured.
    """
    machine = options.settings(MachineWishes)
    if check != bool(profiles):
        raise click.UsageError("--check and the PROFILEs that it looks at go together")
    if check:
        if output is not None:
            raise click.UsageError("--check prints a table; it goes without -o")
        options.only_with("predictions that are written (no --check)", *OF_PREDICTIONS)
        _check(profiles, machine)
        return
    if (acceptance is None) != (exponent is None):
        raise click.UsageError("--acceptance and --exponent go together")
    if acceptance_from is not None and (acceptance is not None or output is None):
        raise click.UsageError(
            "--acceptance-from goes without --acceptance, and with -o: it writes two files"
        )
    if acceptance is None:
        options.only_with("--acceptance", "num_ranks", "temperature")

    from ..documents.profile import Profile
    from ..documents.sampling import Sampling
    from ..estimates.assumed_acceptance import PowerLaw, assumed_profile
    from ..estimates.other_costs import with_costs
    from ..estimates.roofline import Places, predicted_costs
    from .configs import shape_named
    from .models import pair_names

    large, small = (shape_named(name) for name in pair_names(target, draft))
    small = replace(small, vocab=large.vocab)  # as the runtime loads a draft of another one
    roofline = machine.roofline()
    costs = predicted_costs(large, small, roofline, options.settings(Places))
    if acceptance_from is not None:
        options.deliver(with_costs(Profile.load(acceptance_from), costs), output)
    elif acceptance is not None and exponent is not None:
        law, sampling = PowerLaw(acceptance, exponent, num_ranks), Sampling(temperature=temperature)
        profile = assumed_profile(large, small, costs, law, sampling=sampling, dtype=roofline.dtype)
        options.deliver(profile, output)
        options.say(f"note: acceptance is {law}")
    else:
        options.deliver(costs, output)
    options.say(f"note: times are {costs.origin}")


def _check(profiles: tuple[Path, ...], machine: MachineWishes) -> None:
    """Print a table for each profile; of the machine that it was measured on, if none is told."""
    from ..documents.profile import Profile
    from ..show.prediction_text import prediction_errors
    from ..show.tables import printed
    from .configs import shape_named

    for path in profiles:
        profile = Profile.load(path)
        wishes = replace(machine, dtype=machine.dtype or profile.execution.dtype)
        if not machine.is_told:
            wishes = replace(wishes, gpu=profile.machine.gpu or "CPU")
            if profile.machine.gpu is None:
                wishes = replace(wishes, threads=machine.threads or profile.machine.num_threads)
        roofline = wishes.roofline()
        errors = prediction_errors(profile, shape_named(profile.target.name), roofline)
        click.echo(printed([f"{path}: {roofline.words}", *errors]))
