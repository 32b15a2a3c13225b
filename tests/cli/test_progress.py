"""What a long command is doing is said where somebody watches, and only there."""

import pytest

from planner.cli import main

from .profiles import two_verifiers


@pytest.mark.parametrize("terminal", [False, True])
def test_it_is_said_on_terminals_only(monkeypatch, capsys, tmp_path, terminal):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    else:
        monkeypatch.delenv("FORCE_COLOR", raising=False)
    two_verifiers().save(tmp_path / "profile.json")
    arguments = ["solve", str(tmp_path / "profile.json"), "-o", str(tmp_path / "plan.json")]
    main(arguments, standalone_mode=False)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("trees, rrsw" in err) == terminal
    assert "wrote" in err
