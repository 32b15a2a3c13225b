"""`python -m planner`: the command line, where the `planner` script is not on the path."""

from planner.cli import main

main(prog_name="planner")
