"""Comments cite rules of docs/rules/, tests cite all of them, and nothing in the repository points outside of it.

A citation is `NAME.md`, alone or with what it means: `NAME.md 4.3`, `NAME.md 3.3-3.5, 4.3`, `NAME.md "Heading"`,
`NAME.md 4, "Options"`, or with the rule's own words, `NAME.md 2.1: "..."`. A section is a heading
`## 4. ...`, a paragraph the item of a numbered list under it.
"""

import re
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "rules"
KINDS = {".py", ".md", ".yaml", ".yml", ".toml", ".cfg", ".sh", ""}
_NUMBER = r"\d+(?:\.\d+)?"
_CITATION = re.compile(
    rf"""(?<![\w/.*-])(?P<page>[a-zA-Z][\w-]*)\.md(?![\w(]|\.\w)
    (?P<numbers>\s+{_NUMBER}(?!\w)(?:\s*(?:,|-|and|to)\s*{_NUMBER}(?![\w%]))*)?
    (?:(?P<link>,?\s*|:\s*\(?)"(?P<words>[^"]+)")?""",
    re.VERBOSE,
)
_LEAD = re.compile(r"\n[ \t]*#?[ \t]*")


@dataclass
class Page:
    """What can be cited of a page: its numbers, its headings and terms, and its words."""

    numbers: set[str] = field(default_factory=set)
    titles: list[str] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True)
class Citation:
    page: str
    numbers: tuple[str, ...]
    title: str | None
    quote: str | None
    line: int
    cited: frozenset[str] = field(default=frozenset(), compare=False)
    """The numbers with those between the two ends of a range: `3.3-3.5` cites 3.4."""


def plain(text: str) -> str:
    """The words alone, as they are compared: without marks and the breaks of lines."""
    return re.sub(r"\s+", " ", re.sub(r"[`*\"\\]", "", text)).strip().lower()


@cache
def rules() -> dict[str, Page]:
    return {path.stem: read(path.read_text()) for path in RULES.glob("*.md") if path.stem != "index"}


def read(text: str) -> Page:
    page = Page(text=plain(text))
    section = ""
    for line in text.splitlines():
        if heading := re.match(r"#+ (?:(\d+)\. )?(.*)", line):
            page.titles.append(plain(heading[2]))
            section = heading[1] or (section if line.startswith("###") else "")
            page.numbers |= {section} - {""}
        elif section and (item := re.match(r"(\d+)\. ", line)):
            page.numbers.add(f"{section}.{item[1]}")
        page.titles += [plain(term) for term in re.findall(r"\*\*([^*]+)\*\*", line)]
    return page


def without_blocks(text: str) -> str:
    """A page without what stands between fences: the walks of CONTRIBUTING.md speak of rules they have yet to write."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)


def between(numbers: str) -> frozenset[str]:
    """Return the numbers of a citation, and those between the ends of its ranges of paragraphs."""
    cited = set(re.findall(_NUMBER, numbers))
    for section, first, last in re.findall(r"(\d+)\.(\d+)\s*(?:-|to)\s*\1\.(\d+)", numbers):
        cited |= {f"{section}.{number}" for number in range(int(first), int(last))}
    return frozenset(cited)


def citations(text: str) -> Iterator[Citation]:
    joined = _LEAD.sub("\n", without_blocks(text) if text.startswith("# Contributing") else text)
    for found in _CITATION.finditer(joined):
        numbers = re.findall(_NUMBER, found["numbers"] or "")
        title = found["words"] if found["words"] and ":" not in found["link"] else None
        quote = found["words"] if found["words"] and ":" in found["link"] else None
        line = joined.count("\n", 0, found.start()) + 1
        yield Citation(found["page"], tuple(numbers), title, quote, line, between(found["numbers"] or ""))


def wrong(citation: Citation) -> str | None:
    """None, or what is wrong with it."""
    page = rules().get(citation.page)
    if page is None:
        pages = {path.stem for folder in (ROOT, *ROOT.glob("docs/**/")) for path in folder.glob("*.md")}
        if citation.page not in pages:
            return f"there is no page {citation.page}.md in docs/"
        return None if not citation.numbers else f"{citation.page}.md is no page of numbered rules"
    for number in citation.numbers:
        if number not in page.numbers:
            return f"{citation.page}.md has no {number}"
    if citation.title is not None and not any(plain(citation.title) in title for title in page.titles):
        return f"{citation.page}.md has no heading or term {citation.title!r}"
    if citation.quote is not None:
        for part in re.split(r"\.\.\.", citation.quote):
            if plain(part) not in page.text:
                return f"{citation.page}.md does not say {part.strip()!r}"
    return None


def files(more: Collection[str] = ()) -> list[Path]:
    """Every text file that is part of the repository, and those with other suffixes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [path for name in listed if (path := ROOT / name).suffix in {*KINDS, *more} and path.is_file()]


INVENTED = {"tests/docs/test_citations.py", "tests/tools/test_check_words.py"}
"""Files that cite pages which they make up."""


@pytest.mark.parametrize("folder", ["packages", "tests", "tools", "docs", "deploy", "examples", "."])
def test_every_citation_leads_to_a_rule(folder: str) -> None:
    told = []
    count = 0
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if (name.split("/")[0] if "/" in name else ".") != folder or name in INVENTED:
            continue
        for citation in citations(path.read_text()):
            count += 1
            if (problem := wrong(citation)) is not None:
                told.append(f"{name}:{citation.line}: {problem}")
    assert not told, "\n".join(told)
    assert count > {"packages": 300, "tests": 100}.get(folder, -1), "citations are not found any more"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scheduling.md 99", "scheduling.md has no 99"),
        ("preemption.md 4.99", "preemption.md has no 4.99"),
        ("preemption.md 3.3-3.5, 4.77", "preemption.md has no 4.77"),
        ("a rule (preemption.md 1, 55)", "preemption.md has no 55"),
        ('observability.md, "Weather"', "observability.md has no heading or term 'Weather'"),
        ('preemption.md 4, "Opinions"', "preemption.md has no heading or term 'Opinions'"),
        ('preemption.md 2.1: "anything goes"', "preemption.md does not say 'anything goes'"),
        ('preemption.md\n        # 2.1: "anything\n    # goes"', "preemption.md does not say 'anything\\ngoes'"),
        ("see nowhere.md", "there is no page nowhere.md in docs/"),
        ("plan.md 3", "plan.md is no page of numbered rules"),
    ],
)
def test_citation_that_leads_nowhere_is_found(text: str, problem: str) -> None:
    (citation,) = citations(text)
    assert wrong(citation) == problem


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(scheduling.md 7)", ("7",)),
        ("scheduling.md 1-3: a gang", ("1", "3")),
        ("preemption.md 3.3-3.5, 4.3).", ("3.3", "3.5", "4.3")),
        ("scheduling.md 4 and preemption.md 9", ("4",)),
        ("scheduling.md 2, 5xx are retried", ("2",)),
        ("preemption.md 7.2 (the calls)", ("7.2",)),
        ("scheduling.md\n    # 3.8", ("3.8",)),
        ('preemption.md 4, "Options"', ("4",)),
        ("api.md", ()),
    ],
)
def test_citations_are_read_as_they_are_written(text: str, numbers: tuple[str, ...]) -> None:
    first = next(citations(text))
    assert first.numbers == numbers
    assert wrong(first) is None


def test_numbers_of_a_section_count_up_without_gaps() -> None:
    for name, page in rules().items():
        sections = sorted(int(number) for number in page.numbers if "." not in number)
        assert sections == list(range(1, len(sections) + 1)), name
        for section in sections:
            items = sorted(int(n.split(".")[1]) for n in page.numbers if n.startswith(f"{section}."))
            assert items == list(range(1, len(items) + 1)), f"{name}.md {section}"


NOT_TESTED = {
    "a definition that later rules use": ["preemption.md 1.1, 1.4, 1.5"],
    "advice to readers of figures": ["performance.md 1.3"],
    "an aim that `reprieve bench`, tools/measure_scheduler.py or tools/measure_replay.py measures": [
        "performance.md 2.2, 2.4",
        "replay.md 5.3, 6.1",
    ],
    "a result on data of others, which examples/fgd.py computes": ["replay.md 5.1"],
}
"""Rules that no test cites, by the reason."""


def test_rules_are_cited_by_tests() -> None:
    cited: dict[str, set[str]] = {name: set() for name in rules()}
    for path in files():
        if "tests" in path.relative_to(ROOT).parts and path.relative_to(ROOT).as_posix() not in INVENTED:
            for citation in citations(path.read_text()):
                cited.get(citation.page, set()).update(citation.cited)
    uncited = {f"{name}.md {n}" for name, page in rules().items() for n in page.numbers - cited[name] if "." in n}
    assert uncited == {
        f"{citation.page}.md {number}"
        for texts in NOT_TESTED.values()
        for citation in citations("\n".join(texts))
        for number in citation.cited
    }


def test_every_page_of_rules_is_listed() -> None:
    listed = set(re.findall(r"^\| \[([\w-]+)\.md\]", (RULES / "index.md").read_text(), re.MULTILINE))
    assert listed == set(rules())


OPTIONAL_DATA = {
    "packages/reprieve/tests/shared/test_cases.py",
    "packages/reprieve/tests/shared/test_reference.py",
    "packages/kube-standin/tests/transcripts/transcripts.py",
    "tests/docs/test_examples.py",
    "packages/reprieve/tests/replay/traces/test_openb_cluster.py",
}
"""Tests that also look at data beside the checkout, where there is any."""


def test_nothing_points_out_of_the_repository() -> None:
    """Not a path of a builder's machine, nor of a folder beside the checkout but for data that tests may do without."""
    outside = re.compile(r"\.\./shared\b|(?<![\w.])/work/|/home/(?!me/)\w+/|/root/|\bshared/(?:spec|design|seeds)\b")
    told = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if (found := outside.search(line)) and not (name in OPTIONAL_DATA and found[0] == "../shared"):
                told.append(f"{name}:{number}: {line.strip()}")
    assert not told, "\n".join(told)


def test_links_of_the_pages_stay_in_the_repository() -> None:
    for path in files():
        if path.suffix == ".md":
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
                if "://" not in target:
                    assert (path.parent / target).resolve().is_relative_to(ROOT), f"{path}: {target}"
