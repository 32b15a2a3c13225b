"""The error for bad input, in a module of its own: importing it takes no time."""


class PlannerError(Exception):
    """Bad input, said in one line: what was got, what was expected, what to do."""
