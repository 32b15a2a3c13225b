"""Trees drafted along recorded texts."""
