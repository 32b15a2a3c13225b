"""`planner report`: a page of any documents opens offline, runs nothing, and says what they say."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from planner import PlannerError, load
from planner.cli import main
from planner.export import ENGINES, export
from planner.show.page import SAFE

from .test_light import DATA, PAYS
from .test_view import DOCUMENTS, check_of, estimate

VOID = {"meta", "link", "br", "path", "use"}
EVIL = "<script>alert(1)</script>\"'&$\\x$"


class Page(HTMLParser):
    """The tags of a page, which have to be closed in the order in which they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(folder, **documents):
    """The text of the page of documents, by the names of their files."""
    for name, document in documents.items():
        document.save(folder / f"{name}.json")
    files = [str(folder / f"{name}.json") for name in documents]
    result = CliRunner().invoke(main, ["report", *files, "-o", str(folder / "page.html")])
    assert result.exit_code == 0, result.output
    return (folder / "page.html").read_text()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_kind_of_document_has_a_page(name, tmp_path):
    text = page_of(tmp_path, document=DOCUMENTS[name])
    page = Page(text)
    assert page.tags["h1"] == page.tags["main"] == page.tags["title"] - text.count("<g><title") == 1
    assert page.tags["section"] >= 1
    assert "document.json" in page.text


def test_a_page_fetches_nothing_and_runs_nothing(tmp_path):
    text = page_of(tmp_path, **{name.replace(" ", "-"): DOCUMENTS[name] for name in DOCUMENTS})
    page = Page(text)
    assert SAFE in text
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on")
        if name in ("href", "src", "xlink:href", "action", "data"):
            assert value == "data:," or value.startswith("#"), (name, value)
    assert not re.search(r"url\((?!#)|@import|http-equiv=.refresh", text)
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_pictures_have_words_over_their_marks_and_ids_of_their_own(tmp_path):
    plan = DOCUMENTS["plan"]
    text = page_of(tmp_path, profile=DOCUMENTS["profile"], plan=plan, report=DOCUMENTS["report"])
    page = Page(text)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 0
    used = set(re.findall(r'(?:url\(|href=")#([^)"]*)', text))
    assert used == set(ids)
    tips = re.findall(r"<g><title>([^<]*)</title>", text)
    promised = plan.predicted.speedup
    assert f"the plan, {plan.drafting.words()}: {promised} predicted" in tips
    assert f"report.json: {promised} measured" in tips
    assert sum(each.startswith("node ") for each in tips) == plan.tree.num_nodes
    assert sum(" under " in each for each in tips) == sum(
        each.speculates for each in plan.made_from.alternatives
    )
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert len(labels) == len(set(labels)) == page.tags["svg"]


def test_names_that_are_markup_stay_words(tmp_path):
    def renamed(document):
        text = document.model_dump_json().replace('"target"', f"{_quoted(EVIL)}")
        return type(document).model_validate_json(text.replace(f"{_quoted(EVIL)}:", '"target":'))

    report, check = renamed(DOCUMENTS["report"]), check_of(renamed(DOCUMENTS["plan"]))
    runs = [run.model_copy(update={"setting": EVIL}) for run in check.runs]
    text = page_of(
        tmp_path,
        **{
            "a<b>&'": renamed(DOCUMENTS["plan"]),
            "profile": renamed(DOCUMENTS["profile"]),
            "report": report,
            "check": check.model_copy(update={"runs": runs}),
        },
    )
    page = Page(text)
    assert report.target.name == EVIL
    assert page.tags["script"] == page.tags["b"] == 0
    assert page.text.count("<script>alert(1)</script>\"'&") >= 4
    assert "a<b>&'.json" in page.text


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_the_headline_says_what_was_promised_and_measured(tmp_path):
    plan = DOCUMENTS["plan"]
    fast = check_of(plan, estimate(1.5, 1.4, 1.6))
    text = Page(page_of(tmp_path, plan=plan, check=fast)).text
    what = plan.drafting.words().partition(",")[0]
    promised = plan.predicted.speedup.value
    assert f"Draft a {what}: {promised:.2f} × as fast, promised; 1.50 × measured" in text
    slow = check_of(plan, estimate(0.8, 0.7, 0.9))
    assert f"Do not draft a {what}: " in Page(page_of(tmp_path, plan=plan, check=slow)).text
    alone = Page(page_of(tmp_path, plan=DOCUMENTS["plan not to speculate"])).text
    assert "Decode without a draft" in alone


def test_a_plan_that_only_a_report_holds_is_on_its_page(tmp_path):
    text = Page(page_of(tmp_path, report=DOCUMENTS["report"])).text
    assert "The plan, and why" in text
    assert """load("report.json").plan.save("plan.json")' planner decode plan.json""" in text


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    (tmp_path / "other").mkdir()
    plans = (DOCUMENTS["plan"], DOCUMENTS["plan by hand"])
    files = [tmp_path / "plan.json", tmp_path / "other" / "plan.json"]
    for plan, path in zip(plans, files, strict=True):
        plan.save(path)
    result = CliRunner().invoke(main, ["report", *map(str, files)])
    page = Page(result.stdout)
    for path in files:
        assert str(path) in page.text
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_every_engine_is_told_how_or_said_why_not(tmp_path):
    plan, profile = DOCUMENTS["plan"], DOCUMENTS["profile"]
    text = Page(page_of(tmp_path, plan=plan, profile=profile)).text
    said = {name: said_of(name, plan, profile) for name in ENGINES}
    assert [name for name, words in said.items() if words not in text] == []
    able = [name for name, words in said.items() if words.startswith("In ")]
    assert 0 < len(able) < len(ENGINES)


def said_of(engine, plan, profile):
    """The words on an engine: how it is told, or why it cannot be."""
    try:
        made = export(plan, engine, profile=profile)
    except PlannerError as error:
        return " ".join(f"{engine}: {error}".split())
    setting = " ".join(made.content.split())
    return f"In {engine} planner export plan.json --to {engine} {setting}"


def test_plans_that_grow_and_recorded_documents(tmp_path):
    names = ("profile", "plan", "report")
    text = Page(page_of(tmp_path, **{name: load(DATA / f"{name}.json") for name in names})).text
    report = load(DATA / "report.json")
    promised, measured = report.plan.predicted.speedup.value, report.baseline.speedup.value
    fast = f"{promised:.2f} × as fast, promised; {measured:.2f} × measured"
    assert f"Draft trees that grow step by step: {fast}" in text
    assert "which is not the one that the plan was made from" in text


def test_wrong_files_are_one_line(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    result = CliRunner().invoke(main, ["report", str(tmp_path / "a.json")])
    assert result.exit_code == 1
    assert result.stderr.startswith("planner: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_plan_and_another_models_profile_are_no_page():
    files = [str(PAYS / "profile.json"), str(DATA / "plan.json")]
    result = CliRunner().invoke(main, ["report", *files])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "got a plan of embedded/target and embedded/draft, expected one of" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_plan_with_the_times_of_another_machine_has_a_page_with_its_own_profile(tmp_path):
    profile, plan = DOCUMENTS["profile"], DOCUMENTS["plan"]
    machine = plan.made_from.machine.model_copy(update={"cpu": "another"})
    made_from = plan.made_from.model_copy(update={"machine": machine, "profile_sha256": "0" * 64})
    text = page_of(tmp_path, profile=profile, plan=plan.model_copy(update={"made_from": made_from}))
    assert "another" in Page(text).text


def test_no_name_is_no_file():
    for words in (["show", ""], ["solve", str(PAYS / "profile.json"), "-o", ""]):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2
        assert result.stderr.endswith("got an empty name, expected a file's\n")
