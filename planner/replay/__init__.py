"""Replay: what a policy would have done on a profile's recorded trees."""
