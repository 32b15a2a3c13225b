"""What planning must know of a verifier."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VerifierTraits:
    """What planning must know of a verifier; the verifier itself lives in `runtime.verifiers`."""

    summary: str
    max_children: int | None = None
    """Most children of one node that the method can serve; None: any number."""
    incremental: bool = True
    """May siblings be drawn one at a time, deciding in between whether to draw another?"""
    nested: bool = True
    """Is the first part of a sample of k children a sample of fewer children?"""
    distinct: bool = True
    """Are the children of one node different tokens?"""
    deterministic: bool = False
    """Are the children a function of the draft's distribution (no sampling)?"""
    by_rank_alone: bool = True
    """Does a child's acceptance depend on its rank alone?  If not, it depends on how many siblings
    it has too."""
    non_increasing: bool = False
    """Is no child ever likelier to be accepted than an earlier sibling, whatever p and q are?"""

    @property
    def grows(self) -> bool:
        """May it be decided while drafting whether a node gets another child?"""
        return self.incremental and self.nested and self.by_rank_alone


VERIFIER_TRAITS: dict[str, VerifierTraits] = {
    "chain": VerifierTraits("one draw, plain speculative sampling", max_children=1),
    "naive": VerifierTraits(
        "independent draws, target sampled", distinct=False, non_increasing=True
    ),
    "topk": VerifierTraits(
        "the draft's most probable tokens, target sampled", deterministic=True
    ),
    "rrs": VerifierTraits(
        "recursive rejection, independent draws (SpecInfer)", distinct=False, non_increasing=True
    ),
    "kseq": VerifierTraits(
        "K-sequential selection, independent draws (SpecTr)",
        incremental=False, distinct=False, by_rank_alone=False, non_increasing=True,
    ),
    "rrsw": VerifierTraits("recursive rejection, without replacement (Sequoia)"),
    "spechub": VerifierTraits(
        "pairs with the draft's most probable token (SpecHub)",
        max_children=2, incremental=False, nested=False, by_rank_alone=False,
    ),
    "lookahead": VerifierTraits("rejection in pairs, without replacement", incremental=False),
}  # fmt: skip

GREEDY_RULE = "topk"
"""At temperature 0 every verifier is this rule: it is what decoding uses there."""
