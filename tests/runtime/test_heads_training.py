"""The head is what the paper says, and its training is repeatable to the last bit."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from planner.documents.head_card import HeadShape
from runtime.heads import AcceptanceHead, Checkpoint, learning_rate_for, thinned, train
from runtime.heads.acceptance_head import unweighted
from runtime.heads.head_training import weighted_loss
from runtime.heads.head_trial import binary_kl
from runtime.heads.labelled_texts import training_rows
from tests.runtime.heads_factory import labelled, shape, small_pair, training


def trained(**change):
    checkpoint, depth = change.pop("checkpoint", None), change.pop("depth", 2)
    return train(
        small_pair()[1], labelled(), shape(depth=depth), training(**change), checkpoint=checkpoint
    )


def same_weights(one: AcceptanceHead, other: AcceptanceHead) -> bool:
    states = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in states)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 7, 32])
def test_every_block_has_weights_of_its_own(size, depth):
    head = AcceptanceHead(HeadShape(hidden_size=size, depth=depth))
    assert sum(weight.numel() for weight in head.parameters()) == (
        depth * (size * size + size) + size + 1
    )


def test_training_moves_every_block_its_own_way():
    head, _ = trained(depth=3)
    blocks = [block.linear.weight for block in head.blocks]
    assert len({block.data_ptr() for block in blocks}) == 3
    assert all(not torch.allclose(one, other, atol=1e-3) for one, other in pairwise(blocks))


def test_scores_are_the_formula():
    head, _ = trained(depth=3)
    hidden = torch.randn(5, 32, generator=torch.Generator().manual_seed(0)) * 3
    x = hidden.numpy().astype(np.float64)
    for block in head.blocks:
        weight, bias = (w.detach().numpy().astype(np.float64) for w in block.linear.parameters())
        inner = x @ weight.T + bias
        x = x + inner / (1 + np.exp(-inner))
    weight, bias = (w.detach().numpy().astype(np.float64) for w in head.output.parameters())
    logits = x @ weight[0] + bias
    assert head.scores(hidden).numpy() == pytest.approx(1 / (1 + np.exp(-logits)), abs=1e-5)
    odds = 6 * np.exp(logits)
    assert head.probabilities(hidden).numpy() == pytest.approx(odds / (1 + odds), abs=1e-5)
    assert head.scores(hidden.bfloat16()).dtype == torch.float32


def test_the_loss_is_the_weighted_sum_over_tokens():
    labels, scores, weight = [0.0, 1.0, 0.3], [0.2, 0.9, 0.6], 3.0
    by_hand = -sum(
        p * math.log(s) + weight * (1 - p) * math.log(1 - s)
        for p, s in zip(labels, scores, strict=True)
    )
    logits = torch.tensor(scores, dtype=torch.float64).logit()
    loss = weighted_loss(logits, torch.tensor(labels, dtype=torch.float64), weight)
    assert float(loss) == pytest.approx(by_hand / 3, rel=1e-12)


@pytest.mark.parametrize("weight", [1.0, 3.0, 6.0, 12.0])
def test_undoing_the_weight_gives_back_the_acceptance(weight):
    """The score that minimises the loss of one label, found on a grid."""
    label, grid = 0.7, torch.linspace(0.0005, 0.9995, 9991, dtype=torch.float64)
    losses = torch.stack(
        [
            weighted_loss(score.logit()[None], torch.tensor([label]).double(), weight)
            for score in grid
        ]
    )
    best = grid[losses.argmin()]
    assert float(unweighted(best.logit(), weight).sigmoid()) == pytest.approx(label, abs=2e-3)


def test_a_new_head_knows_nothing():
    hidden = torch.randn(9, 32, generator=torch.Generator().manual_seed(1))
    assert AcceptanceHead(shape(depth=3)).scores(hidden).tolist() == [0.5] * 9


def test_the_learning_rate_is_the_papers_at_its_width():
    assert learning_rate_for(4096, 3750) == pytest.approx(5e-5)
    assert learning_rate_for(128, 3750) == pytest.approx(5e-5 * 32)
    assert learning_rate_for(4096, 10**6) == pytest.approx(5e-5)
    assert learning_rate_for(4096, 938) == pytest.approx(1e-4, rel=1e-3)
    assert learning_rate_for(4096, 1) == learning_rate_for(4096, 36) == pytest.approx(2e-4)


def test_an_epoch_is_adamw_on_a_cosine_over_shuffled_batches():
    """Three epochs of two steps (4 and 2 texts), repeated with plain torch."""
    draft, texts = small_pair()[1], labelled()
    settings = training(epochs=3, batch_size=4)
    head, losses = train(draft, texts, shape(), settings)
    other = AcceptanceHead(shape(), seed=settings.seed)
    optimizer = torch.optim.AdamW(other.parameters())
    by_hand, step = [], 0
    for epoch in range(3):
        order = np.random.default_rng([settings.seed, epoch]).permutation(6)
        for picks in (order[:4], order[4:]):
            rows = [
                training_rows(
                    draft, texts[i], 0.15, np.random.default_rng([settings.seed, epoch, i])
                )
                for i in picks
            ]
            hidden, labels = (torch.cat(part) for part in zip(*rows, strict=True))
            optimizer.param_groups[0]["lr"] = 1e-2 * 0.5 * (1 + math.cos(math.pi * step / 6))
            scores = other(hidden).sigmoid()
            loss = -(labels * scores.log() + 6 * (1 - labels) * (1 - scores).log()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            by_hand.append(loss.item())
            step += 1
    assert losses == pytest.approx(by_hand, rel=1e-4)
    for got, expected in zip(head.parameters(), other.parameters(), strict=True):
        assert torch.allclose(got, expected, atol=1e-4)


def test_the_draft_stays_as_it_is():
    module = small_pair()[1].module
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    trained()
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())
    assert all(weight.grad is None for weight in module.parameters())


@pytest.mark.parametrize("stop_after", [1, 4, 7])
@pytest.mark.parametrize("mix", [0.15, None])
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path, monkeypatch, stop_after, mix):
    whole, losses = trained(mix=mix)
    assert len(losses) == 12
    checkpoint = Checkpoint(tmp_path / "state", every=2)
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == stop_after + 1:
            raise KeyboardInterrupt
        return weighted_loss(*arguments)

    monkeypatch.setattr("runtime.heads.head_training.weighted_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(mix=mix, checkpoint=checkpoint)
    assert checkpoint.path.exists() == (stop_after >= 2)
    resumed, all_losses = trained(mix=mix, checkpoint=checkpoint)
    assert len(calls) == stop_after + 1 + 12 - stop_after // 2 * 2  # on from the last checkpoint
    assert all_losses == losses
    assert same_weights(resumed, whole)


def test_another_seed_gives_another_head():
    assert not same_weights(trained(seed=1)[0], trained(seed=2)[0])


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file", b"\x80\x02]q\x00."])
def test_a_damaged_checkpoint_counts_as_none(tmp_path, damage):
    (tmp_path / "state").write_bytes(damage)
    head, losses = trained(checkpoint=Checkpoint(tmp_path / "state", every=5))
    whole, expected = trained()
    assert losses == expected
    assert same_weights(head, whole)


def test_training_finds_what_there_is_to_find():
    """Texts learned by heart: far closer to the exact acceptance than any constant is."""
    draft, texts = small_pair()[1], labelled()
    head, losses = train(
        draft, texts, shape(depth=3),
        training(epochs=60, batch_size=6, mix=None, reject_weight=1.0),
    )  # fmt: skip
    rows = [training_rows(draft, text, None, np.random.default_rng(0)) for text in texts]
    hidden, labels = (torch.cat(part) for part in zip(*rows, strict=True))
    with torch.no_grad():
        fitted = binary_kl(labels.double(), head(hidden).double())
    constant = binary_kl(labels.double(), labels.double().mean().logit().expand_as(labels))
    assert losses[-1] < losses[0]
    assert fitted < constant / 4


def test_a_long_loss_curve_is_thinned_to_means():
    assert thinned([1.0, 2.0, 6.0]) == [1.0, 2.0, 6.0]
    thin = thinned(list(range(1000)))
    assert len(thin) == 100
    assert thin[:2] == [4.5, 14.5]
