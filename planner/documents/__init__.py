"""What travels between processes: facts, strict, versioned, written atomically."""
