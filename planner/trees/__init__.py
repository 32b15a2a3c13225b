"""Which tree of n nodes emits most."""
