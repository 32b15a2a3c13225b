"""Run the `$ planner ...` lines and the Python of the README and of the pages of `PAGES`, in order.

    python .ci/readme.py [--demo DEMO]    run them all in one fresh folder
    python .ci/readme.py --write DEMO     keep a demo's documents in notebooks/data, and put what is
                                          printed of them, and the picture, into the pages

--demo names the folder of documents that a demo has just made by the README's own `planner
profile`, `solve` and `decode`, which are then not run again.  Exits non-zero at the first thing
that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from planner.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs/first-steps.md"]
KEPT = ROOT / "notebooks/data"
SHOWN = KEPT / "inflated-to-25-M"
PRINTED = {
    PAGES[0]: ("planner show ", SHOWN),
    **{ROOT / f"docs/{name}.md": ("planner ", ROOT) for name in ("papers", "elsewhere", "engines")},
}
"""Pages that show what commands of this beginning print where the folder's content is."""
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
ENVIRONMENT = {**os.environ, "PATH": PATH, "COLUMNS": "100"}


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """(language, content) of the fenced blocks of a page that are in one of `languages`."""
    pattern = rf"^```({'|'.join(languages)})\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """The commands of a console block, without their `$`; one may go on behind a backslash."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE)


def run_pages(demo: Path | None) -> None:
    """Run everything; documents in `demo` stand for the first of the commands that make them."""
    made = {"profile": "profile.json", "solve": "plan.json", "decode": "report.json"}
    if demo is None:
        made.clear()
    with tempfile.TemporaryDirectory() as folder:
        for page in PAGES:
            found = blocks(page, "console", "python")
            if not found:
                sys.exit(f"{page}: expected commands or a Python example, found none")
            # a page's Python goes on where it stopped, so all of it is one program, run at its end
            program = "".join(content for language, content in found if language == "python")
            languages = [language for language, _ in found]
            for place, (language, content) in enumerate(found):
                if language == "console":
                    lines = [shlex.split(line.replace("\\\n", " ")) for line in commands(content)]
                else:
                    goes_on = "python" in languages[place + 1 :]
                    lines = [] if goes_on else [[sys.executable, "-c", program]]
                for arguments in lines:
                    print("$", shlex.join(arguments)[:200], flush=True)
                    if demo and arguments[0] == "planner" and arguments[1] in made:
                        take(demo / made.pop(arguments[1]), Path(folder))
                    else:
                        subprocess.run(arguments, cwd=folder, env=ENVIRONMENT, check=True)


def take(document: Path, folder: Path) -> None:
    """Copy a document, and arrays beside it of the same name, to `folder`."""
    print(f"  (taken from {document}, which this command wrote)", flush=True)
    for path in document.parent.glob(f"{document.stem}.*"):
        if path.suffix in (".json", ".safetensors"):
            shutil.copy(path, folder)


def with_outputs(page: Path) -> str:
    """The text of a page of `PRINTED`, with what its commands print now below each of them."""
    beginning, content = PRINTED[page]

    def answered(found: re.Match[str]) -> str:
        lines = []
        for command in commands(found[1]):
            lines.append(f"$ {command}")
            if command.startswith(beginning):
                told = CliRunner().invoke(main, shlex.split(command)[1:], env={"COLUMNS": "100"})
                if told.exit_code:
                    sys.exit(f"{page}: {command}: {told.output}")
                lines += [line.rstrip() for line in told.output.rstrip("\n").splitlines()]
        return "```console\n" + "\n".join(lines) + "\n```"

    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # some write what others read
        for each in content.iterdir():
            Path(each.name).symlink_to(each)
        return re.sub(
            r"^```console\n(.*?)^```$", answered, page.read_text(), flags=re.MULTILINE | re.DOTALL
        )


def write(demo: Path) -> None:
    """A demo's documents into notebooks/data, and from them the outputs and picture of pages."""
    from planner import load, save
    from planner.show.figures import overview, save_png

    for folder in KEPT.iterdir():
        if not load(demo / folder.name / "plan.json").speculates:
            print(f"{folder}: kept, as notebooks show drafts, and the new plan has none")
            continue
        save(load(demo / folder.name / "profile.json").without_arrays(), folder / "profile.json")
        for name in ("plan.json", "report.json"):
            shutil.copy(demo / folder.name / name, folder)
    for page in PRINTED:
        page.write_text(with_outputs(page))
    documents = (load(SHOWN / f"{name}.json") for name in ("profile", "plan", "report"))
    save_png(overview(*documents), ROOT / "docs/images/overview.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", type=Path)
    parser.add_argument("--write", type=Path, metavar="DEMO")
    arguments = parser.parse_args()
    write(arguments.write) if arguments.write else run_pages(arguments.demo)
