"""Laws of `inflate`: a larger shape, the same function, hardly a weight that is zero."""

import copy
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from planner import PlannerError
from runtime import as_language_model
from runtime.embedded import load_pair, load_prompts
from runtime.embedded.inflate import SHAPES, Shape, _check_sizes, _empty, inflate

VOCAB = 131
SMALL = Shape(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate=44)
LIKE = {
    "itself": SMALL,
    "wider": Shape(96, 2, 4, 2, 8, 44),
    "more layers": Shape(64, 7, 4, 2, 8, 44),
    "more heads": Shape(96, 2, 12, 2, 8, 44),
    "smaller groups": Shape(64, 2, 8, 8, 8, 44),
    "groups that do not divide": Shape(288, 2, 9, 3, 8, 44),
    "longer heads": Shape(64, 2, 4, 2, 32, 44),
    "more units": Shape(64, 2, 4, 2, 8, 101),
    "added layers in groups of one": Shape(96, 3, 6, 6, 8, 63),
    "added layers in groups of three": Shape(96, 5, 12, 4, 16, 45),
    "all at once": Shape(128, 9, 32, 32, 32, 176),
}


@pytest.fixture(scope="module")
def small() -> LlamaForCausalLM:
    """A random model whose heads attend sharply, so that wrong positions show in the logits."""
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCAB,
        **SMALL.sizes(),
        max_position_embeddings=512,
        initializer_range=0.15,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


@pytest.fixture(scope="module")
def atol(small) -> float:
    return tolerance(small, random_ids(2, 300))


def tolerance(model: LlamaForCausalLM, ids: torch.Tensor) -> float:
    """Ten times what float32 arithmetic itself costs the model's logits on `ids`.

    Rounding W/m + N_c perturbs every weight anew, as float32 arithmetic does every product.
    """
    exact = logits(copy.deepcopy(model).double(), ids)
    return 10 * (logits(model, ids) - exact).abs().max().item()


@torch.no_grad()
def logits(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    return model(ids).logits.float()


def random_ids(rows: int, length: int, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randint(vocab, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("like", LIKE.values(), ids=LIKE.keys())
def test_every_shape_computes_the_same_function(small, atol, like):
    ids = random_ids(2, 300)
    large = inflate(small, like=like)
    assert Shape.of(large.config) == like
    torch.testing.assert_close(logits(large, ids), logits(small, ids), rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["longer heads", "all at once"])
@torch.no_grad()
def test_cached_decoding_continues_the_same_function(small, atol, name):
    ids = random_ids(2, 63)
    large = inflate(small, like=LIKE[name])
    out = large(ids[:, :50], use_cache=True)
    steps = [out.logits[:, -1]]
    for position in range(50, 63):
        step = ids[:, position : position + 1]
        out = large(step, past_key_values=out.past_key_values, use_cache=True)
        steps.append(out.logits[:, -1])
    expected = logits(small, ids)[:, 49:]
    torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=0, atol=atol)


@pytest.fixture(scope="module")
def of_25m() -> LlamaForCausalLM:
    """The embedded target, inflated by one thread."""
    return inflate(load_pair()[0], like="25M")


@pytest.mark.parametrize("name", ["25M", pytest.param("100M", marks=pytest.mark.soak)])
def test_the_embedded_target_keeps_its_function_up_to_its_last_position(name, of_25m):
    target, _ = load_pair()
    ids = random_ids(1, target.config.max_position_embeddings, target.config.vocab_size)
    large = of_25m if name == "25M" else inflate(target, like=name)
    assert has_about(large, name)
    atol = tolerance(target, ids) / 2
    assert atol < 1e-3  # on logits of up to 15
    torch.testing.assert_close(logits(large, ids), logits(target, ids), rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["25M", "100M"])
def test_a_shape_named_by_its_size_has_about_that(name):
    config = load_pair()[0].config
    small = Shape.of(config)
    large = _empty(config, small, SHAPES[name], dtype=torch.float32, device="cpu")
    assert has_about(large, name)


def has_about(model: LlamaForCausalLM, name: str) -> bool:
    """So many weights?"""
    millions = sum(weight.numel() for weight in model.parameters()) / 1e6
    return 0.9 < millions / int(name.removesuffix("M")) < 1.1


def test_a_layer_as_wide_as_llama_2_7b_computes_the_same_function():
    torch.manual_seed(3)
    sizes = Shape(hidden=256, layers=1, heads=8, kv_heads=2, head_dim=32, intermediate=640)
    config = LlamaConfig(vocab_size=VOCAB, **sizes.sizes(), initializer_range=0.1)
    narrow = LlamaForCausalLM(config).eval()
    wide = Shape(**(vars(SHAPES["llama-2-7b"]) | {"layers": 1}))
    ids = random_ids(1, 20)
    large = inflate(narrow, like=wide)
    assert large.model.layers[0].mlp.down_proj.weight.shape == (4096, 11008)
    torch.testing.assert_close(logits(large, ids), logits(narrow, ids), rtol=0, atol=2e-5)


def test_the_whole_of_llama_2_7b_is_within_reach_of_the_embedded_target():
    target, _ = load_pair()
    published = LlamaConfig(  # as in the repository of Llama-2-7B
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
    )
    like = Shape.of(published)
    assert like == SHAPES["llama-2-7b"]
    _check_sizes(Shape.of(target.config), like)
    large = _empty(target.config, Shape.of(target.config), like, dtype=torch.float16, device="cpu")
    inner = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096) + 4096
    ends = 2 * target.config.vocab_size * 4096
    assert sum(weight.numel() for weight in large.parameters()) == inner + ends


@pytest.mark.parametrize("like", list(SHAPES.values()), ids=SHAPES.keys())
def test_every_named_shape_can_be_reached(like):
    target, _ = load_pair()
    _check_sizes(Shape.of(target.config), like)


@pytest.mark.parametrize("name", ["more layers", "longer heads", "all at once"])
def test_no_matrix_holds_zeros(small, name):
    large = inflate(small, like=LIKE[name])
    zeros = {name: (weight == 0).sum().item() for name, weight in large.named_parameters()}
    assert not any(zeros.values())


def test_added_layers_do_work_and_add_nothing(small):
    large = inflate(small, like=LIKE["more layers"])
    kept = {2, 6}  # two layers spread over seven, the last one last
    for index, layer in enumerate(large.model.layers):
        seen = {}
        layer.mlp.down_proj.register_forward_hook(
            lambda module, inputs, output, seen=seen: seen.update(i=inputs[0], o=output)
        )
        logits(large, random_ids(1, 20))
        assert seen["i"].square().mean().sqrt() > 1e-2
        assert (seen["o"].abs().max() > 1e-2) == (index in kept)


def test_the_seed_decides_the_weights_but_not_the_function(small, atol):
    ids, like = random_ids(1, 50), LIKE["more layers"]
    one, again, other = (inflate(small, like=like, seed=seed) for seed in (0, 0, 1))
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
        assert (
            not weight.is_floating_point()
            or "norm" in name
            or weight.shape[0] == VOCAB
            or (not torch.equal(weight, other.state_dict()[name]))
        )
    torch.testing.assert_close(logits(one, ids), logits(other, ids), rtol=0, atol=2 * atol)


def test_weights_do_not_depend_on_the_number_of_threads(of_25m):
    """So that a plan that was made with all of them is carried out with fewer."""
    before, one = torch.get_num_threads(), of_25m.state_dict()
    assert before == 1
    try:
        torch.set_num_threads(2)
        other = inflate(load_pair()[0], like="25M").state_dict()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(one.values(), other.values(), strict=True))


def test_bfloat16_costs_about_what_it_costs_the_embedded_target():
    target, _ = load_pair()
    ids = torch.tensor(load_prompts("profile")[:8])
    expected = logits(target, ids).softmax(-1)

    def distance(model: LlamaForCausalLM) -> float:
        return (logits(model, ids).softmax(-1) - expected).abs().sum(-1).mean().item() / 2

    large = inflate(target, like="25M", dtype=torch.bfloat16)
    itself = distance(target.to(torch.bfloat16))
    assert 0 < distance(large) < 1.5 * itself


def test_what_it_came_from_is_recorded_and_survives_saving(small, tmp_path):
    ids = random_ids(1, 30)
    large = inflate(small, like=LIKE["wider"])
    large.save_pretrained(tmp_path)
    read = LlamaForCausalLM.from_pretrained(tmp_path).eval()
    assert read.config.inflated_from == SMALL.sizes() == large.config.inflated_from
    assert torch.equal(logits(read, ids), logits(large, ids))


def test_only_the_sizes_of_a_config_count(small, atol):
    like = LlamaConfig(
        vocab_size=999,
        **LIKE["wider"].sizes(),
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
        rms_norm_eps=0.1,
    )
    large, ids = inflate(small, like=like), random_ids(1, 100)
    assert large.config.vocab_size == VOCAB
    torch.testing.assert_close(logits(large, ids), logits(small, ids), rtol=0, atol=atol)


def test_shapes_are_read_from_text():
    text = "hidden=64, layers=3,heads=4,intermediate=96"
    assert Shape.parse(text) == Shape(64, 3, 4, 4, 16, 96)
    assert Shape.parse(text + ",kv_heads=2,head_dim=8") == Shape(64, 3, 4, 2, 8, 96)
    assert Shape.parse("25M") is SHAPES["25M"]
    grown = replace(SHAPES["25M"], vocab=32000, positions=16384)
    assert Shape.parse("25M,vocab=32000,positions=16384") == grown
    assert grown.sizes() == SHAPES["25M"].sizes() | {
        "vocab_size": 32000, "max_position_embeddings": 16384
    }  # fmt: skip


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (Shape(80, 2, 4, 2, 8, 44), ["hidden=80", "multiple", "32", "take 64"]),
        (Shape(64, 2, 4, 2, 12, 44), ["head_dim=12", "multiple", "8"]),
        (Shape(64, 1, 4, 2, 8, 44), ["layers=1", "at least", "2"]),
        (Shape(64, 2, 4, 2, 8, 43), ["intermediate=43", "at least", "44"]),
        (Shape(64, 2, 2, 1, 8, 44), ["kv_heads=1", "at least 2"]),
        (Shape(96, 2, 3, 3, 8, 44), ["heads=3", "at least 4"]),
        (Shape(288, 3, 9, 9, 8, 44), ["heads=9", "even", "heads=10"]),
        (replace(LIKE["wider"], vocab=5), ["vocab=5", "at least", "leave it out"]),
        (replace(LIKE["wider"], positions=5), ["positions=5", "at least"]),
        ("25M,vocab", ["25M,vocab", "hidden="]),
        ("a-big-one", ["a-big-one", "25M", "hidden="]),
        ("hidden=64,layers=2", ["heads, intermediate"]),
        ("hidden=64,layers=2,heads=4,kv_heads=3,intermediate=44", ["heads=4", "kv_heads=3"]),
        ("hidden=64,layers=2,heads=4,head_dim=7,intermediate=44", ["head_dim=7", "even"]),
        ("hidden=64,layers=0,heads=4,intermediate=44", ["layers=0", "positive"]),
    ],
)
def test_a_shape_out_of_reach_is_refused_in_one_line(small, like, words):
    with pytest.raises(PlannerError) as caught:
        inflate(small, like=like)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("got ")
    assert "expected" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tokens_of_a_larger_vocabulary_are_never_drawn(small, atol, dtype):
    """Logits of the others are what they are without, and of these nothing is left."""
    more, plain = small.config.vocab_size + 40, inflate(small, like=LIKE["wider"], dtype=dtype)
    like = replace(LIKE["wider"], vocab=more, positions=4000)
    large = inflate(small, like=like, dtype=dtype)
    ids = torch.arange(12)[None] % small.config.vocab_size
    model = as_language_model(large)
    logits = model.forward(ids[0], torch.arange(12), model.new_cache(12))
    assert logits.shape == (12, more)
    assert large.config.max_position_embeddings == 4000
    expected = plain(input_ids=ids).logits[0]
    close = atol if dtype == torch.float32 else 0.1
    torch.testing.assert_close(logits[:, : expected.shape[1]], expected, rtol=0, atol=close)
    assert (logits.float().softmax(-1)[:, expected.shape[1] :] == 0).all()


def test_the_dtype_is_that_of_the_weights_and_of_the_config(small):
    large = inflate(small, like=LIKE["wider"], dtype=torch.bfloat16)
    assert {weight.dtype for weight in large.parameters()} == {large.config.dtype}
    assert large.config.dtype == torch.bfloat16


def test_rotary_scaling_is_refused():
    scaling = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    config = LlamaConfig(vocab_size=VOCAB, **SMALL.sizes(), rope_parameters=scaling)
    with pytest.raises(PlannerError, match="rotary scaling 'linear'"):
        inflate(LlamaForCausalLM(config), like=LIKE["wider"])
