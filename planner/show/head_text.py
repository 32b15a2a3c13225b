"""A trained acceptance head as it looks in a terminal."""

from __future__ import annotations

from ..documents.estimate import Estimate
from ..documents.head_card import STOPPING_SCORES, HeadCard
from .tables import Shown, table


def show_head(card: HeadCard) -> list[Shown]:
    """The head: what it is, how it fits, what stopping by it saves."""
    found = card.evaluation
    calibration = [
        [f"{one.score:.3f}", f"{one.predicted:.3f}", f"{one.accepted:.3f}", str(one.num_tokens)]
        for one in found.calibration
    ]
    stopping = [
        [
            str(row.num_drafted),
            f"{row.verification_rate:.3f}",
            f"{row.discard_rate:.3f}",
            *(_change(row.change.get(rule)) for rule in STOPPING_SCORES),
        ]
        for row in found.compared
    ]
    return [
        _words(card),
        table(
            "calibration, held-out tokens by score",
            ["score", "weight undone", "accepted", "tokens"],
            calibration,
            num_left=0,
        ),
        table(
            "chains that verify as often as those of a fixed length: target passes and "
            "discarded tokens per token,\nand how many more or fewer tokens are discarded by "
            "stopping rules (± 2 standard errors over prompts)",
            ["fixed length", "verified", "discarded", *STOPPING_SCORES],
            stopping,
            num_left=0,
        ),
    ]


def _words(card: HeadCard) -> str:
    data, training, found = card.data, card.training, card.evaluation
    contexts = "as in decoding" if training.mix is None else f"{training.mix:.0%} of the target's"
    return (
        f"head of {card.shape.depth} blocks of {card.shape.hidden_size} for "
        f"{card.draft.name} beside {card.target.name}, {card.sampling}\n"
        f"trained on {data.num_tokens} tokens of {data.num_texts} texts behind "
        f"{data.num_prompts} prompts, tokens before a drafted one: {contexts}; "
        f"{data.mean_acceptance:.1%} accepted\n"
        f"loss (rejections weigh {training.reject_weight:g}): {card.losses[0]:.4f} at first, "
        f"{card.losses[-1]:.4f} at last\n"
        f"binary KL on {data.held_out_tokens} tokens behind {data.held_out_prompts} other "
        f"prompts: {found.kl:.4f}; with the weight undone {found.kl_unweighted:.4f}; of a "
        f"constant {found.kl_constant:.4f}"
    )


def _change(one: Estimate | None) -> str:
    if one is None:
        return ""
    return f"{one.value:+.1%} ±{(one.high - one.low) / 2:.1%}".replace("%", " %")
