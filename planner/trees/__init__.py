"""Trees of n nodes that emit most."""
