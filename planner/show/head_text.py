"""A trained acceptance head as it looks in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ..documents.head_card import STOPPING_SCORES, HeadCard, HeadEvaluation
from .tables import Shown, printed, table


def render_head(card: HeadCard) -> str:
    """The head for a person: what it is, how it fits, what stopping by it saves."""
    return printed([_words(card), _calibration(card.evaluation), _stopping(card.evaluation)])


def _words(card: HeadCard) -> str:
    data, training, found = card.data, card.training, card.evaluation
    contexts = "as in decoding" if training.mix is None else f"{training.mix:.0%} of the target's"
    lines: Iterator[str] = iter(
        (
            f"head of {card.shape.depth} blocks of {card.shape.hidden_size} for "
            f"{card.draft.name} beside {card.target.name}, {card.sampling}",
            f"trained on {data.num_tokens} tokens of {data.num_texts} texts behind "
            f"{data.num_prompts} prompts, tokens before a drafted one: {contexts}; "
            f"{data.mean_acceptance:.1%} accepted",
            f"loss (rejections weigh {training.reject_weight:g}): {card.losses[0]:.4f} at first, "
            f"{card.losses[-1]:.4f} at last",
            f"binary KL on {data.held_out_tokens} tokens behind {data.held_out_prompts} other "
            f"prompts: {found.kl:.4f}; with the weight undone {found.kl_unweighted:.4f}; of a "
            f"constant {found.kl_constant:.4f}",
        )
    )
    return "\n".join(lines)


def _calibration(found: HeadEvaluation) -> Shown:
    rows = [
        [f"{one.score:.3f}", f"{one.predicted:.3f}", f"{one.accepted:.3f}", str(one.num_tokens)]
        for one in found.calibration
    ]
    title = "calibration, held-out tokens by score"
    return table(title, ["score", "weight undone", "accepted", "tokens"], rows, num_left=0)


def _stopping(found: HeadEvaluation) -> Shown:
    rows = []
    for row in found.compared:
        changes = (row.change.get(rule) for rule in STOPPING_SCORES)
        rows.append(
            [
                str(row.num_drafted),
                f"{row.verification_rate:.3f}",
                f"{row.discard_rate:.3f}",
                *(
                    ""
                    if one is None
                    else f"{one.value:+.1%} ±{(one.high - one.low) / 2:.1%}".replace("%", " %")
                    for one in changes
                ),
            ]
        )
    title = (
        "chains that verify as often as those of a fixed length: target passes and discarded "
        "tokens per token,\nand how many more or fewer tokens are discarded by stopping rules "
        "(± 2 standard errors over prompts)"
    )
    headings = ["fixed length", "verified", "discarded", *STOPPING_SCORES]
    return table(title, headings, rows, num_left=0)
