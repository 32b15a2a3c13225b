"""Estimates: what a profile's facts amount to, and how sure that is."""
