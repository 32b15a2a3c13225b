"""What is raised for bad input: importing this takes no time, unlike the documents themselves."""


class PlannerError(Exception):
    """Bad input, said in one line: what was got, what was expected, what to do."""
