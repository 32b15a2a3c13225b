"""The error for bad input, and others' in its words; importing this module takes no time."""


class PlannerError(Exception):
    """Bad input, said in one line: what was got, what was expected, what to do."""


def in_one_line(error: BaseException, most: int = 120) -> str:
    """The kind and the words of somebody else's error, of `most` characters at most."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:most]
