"""The tree of n nodes that emits most."""
