"""Writing a document: whole or not at all, and to whatever stands at the path."""

import errno
import os
import stat

import pytest

from planner import Plan, PlannerError, Tree, load, save
from planner.documents.document import check_writable, write_atomically
from planner.optimizer import acceptance_rates, expected_tokens

from .samples import plan_content


def test_an_unwritable_path_leaves_nothing(tmp_path):
    plan = Plan.parse(plan_content(), "sample")
    with pytest.raises(PlannerError, match="cannot be written: No such file or directory"):
        save(plan, tmp_path / "absent" / "plan.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(PlannerError, match="cannot be written"):
        save(plan, tmp_path / "folder.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_partial_one(call, tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(PlannerError, match="No space left on device; nothing was changed"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path):
    """Put in the place of /dev/null, a file would break the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs open files by name")
def test_a_pipe_without_a_name_is_written_to():
    """As /dev/stdout is where another program reads it: a link that leads to no path."""
    reader, writer = os.pipe()
    check_writable(f"/dev/fd/{writer}")
    write_atomically(f"/dev/fd/{writer}", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    os.close(writer)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    link, file = tmp_path / "link.json", tmp_path / "there" / "plan.json"
    link.symlink_to(file)
    for text in ("first", "second"):
        check_writable(link)
        write_atomically(link, text)
        assert file.read_text() == text
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: load(1 << 20), "path: got a int, expected a str or a Path"),
        (lambda: load(None), "path: got a NoneType"),
        (lambda: save(Plan.parse(plan_content(), "sample"), 2.5), "path: got a float"),
        (lambda: Tree([[-1], [0, 0]]), "parents: got"),
        (lambda: expected_tokens([-1, 0], [0.5]), "tree: got"),
        (lambda: expected_tokens(Tree([-1, 0]), [10**400]), "acceptance: got"),
        (lambda: acceptance_rates([0.5, 0.5], [0.5, 0.5], [], 1), "verifier: got"),
    ],
)
def test_what_is_of_another_type_is_said_in_one_line(call, words):
    """A number as a path would be a file that is open already, and be closed."""
    with pytest.raises(PlannerError, match=words):
        call()
