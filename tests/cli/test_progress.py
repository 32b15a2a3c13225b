"""A long command says what it is doing where somebody watches, and only there."""

import pytest

from planner.show.tables import watched


@pytest.mark.parametrize("terminal", [False, True])
def test_it_is_said_on_terminals_only(monkeypatch, capsys, terminal):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    else:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
    with watched("first thing") as status:
        status.update("second thing")
    out, err = capsys.readouterr()
    assert out == ""
    assert ("second thing" in err) == terminal
    assert terminal or err == ""
