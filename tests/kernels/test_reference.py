"""The reference tree attention against separate causal attention along each root-to-node path."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from planner import Tree
from tree_kernels import tree_attention

TREES = {
    "lone root": Tree([-1]),
    "chain": Tree([-1, 0, 1, 2, 3, 4, 5]),
    "star": Tree([-1, 0, 0, 0, 0, 0, 0]),
    "bushy": Tree([-1, 0, 0, 1, 1, 2, 3]),
}


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("prefix", [0, 1, 7, 63])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(1, 1), (6, 2), (5, 1)])
def test_a_node_attends_as_if_its_path_were_the_text(name, prefix, num_heads, num_kv_heads):
    tree, rng = TREES[name], torch.Generator().manual_seed(prefix)
    n, width = tree.num_nodes, 16

    def draw(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    query = draw(2, num_heads, n, width)
    key, value = draw(2, num_kv_heads, prefix + n, width), draw(2, num_kv_heads, prefix + n, width)
    ancestors = torch.from_numpy(tree.ancestors)
    output = tree_attention(query, key, value, ancestors)
    for node in range(n):
        rows = [*range(prefix), *(prefix + j for j in range(n) if ancestors[node, j])]
        expected = scaled_dot_product_attention(
            query[:, :, node : node + 1], key[:, :, rows], value[:, :, rows], enable_gqa=True
        )
        # float64 sums of fewer than 100 terms of size one
        torch.testing.assert_close(output[:, :, node : node + 1], expected, rtol=0, atol=1e-13)


def test_shapes_that_do_not_fit_are_refused():
    tensor = torch.zeros(1, 3, 2, 4)
    with pytest.raises(ValueError, match="expected"):
        tree_attention(tensor, torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 2, 4), torch.eye(2) > 0)
    with pytest.raises(ValueError, match="expected"):
        tree_attention(tensor, tensor, tensor, torch.eye(3) > 0)
