"""Documents that travel between processes: facts, strict, versioned, written atomically."""
