"""Check the English, the class names and the sizes of the repository (CONTRIBUTING.md, "Words").

Pods, gangs and nodes are things, and the words for what happens to them are those of Kubernetes. `WORDS` lists what to
write instead of words that earlier versions used. The check reads Markdown pages, texts of deploy/, and docstrings,
comments, string literals and defined names in packages, tests, tools and examples, and YAML of tests. On Markdown pages
it also reports lines of more than 120 characters outside tables and code, and sentences that begin as `INVERSIONS`
lists. In the sources of packages it also reports a module named by a participle, a class name that two modules use, a
variable with a name that does not say what it holds (`VAGUE`), a public method without a docstring that overrides none
with one, a file of more than 600 lines and a function of more than 60 lines. A comment `# long: REASON` allows the last
two: on a line of its own in the file, or between the first line of the function and its first statement.

    check_words.py         check the repository
    check_words.py PATH    check these files and folders
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_FILE = 600
MAX_FUNCTION = 60
MAX_MARKDOWN = 120
WRITTEN_BY_TOOLS = ("docs/reference/", "changelog.d/", "CHANGELOG")
"""Pages that tools write, and fragments of one line, may have longer lines."""

# (pattern, what to write instead). A space in a pattern matches any white space, line ends included.
WORDS: tuple[tuple[str, str], ...] = (
    (r"who|whom|whose|whoever|whomever", "for pods, gangs and nodes: which, that, its"),
    (r"nobody|no one", "no pods, no workloads, nothing"),
    (r"somebody|anybody|everybody|everyone|someone|anyone", "name the thing: a user, every pod, any client"),
    (r"he|him|his|she|her", "it, its"),
    (r"strangers?", "a client, a user, untrusted input"),
    (r"in vain", "without success; preemption would not help"),
    (r"(?:is|are|was|were|be|been|being|gets?|got) told", "reports, lists, shows, states"),
    (r"told (?:of|by)|tells of", "reports, lists; matched by"),
    (r"(?:is|are|was|were|be) said", "reports, states"),
    (r"(?:has|have|had) a say", "decides, counts"),
    (r"puts? off|putting off", "defer"),
    (r"at odds", "conflicting"),
    (r"the picture", "the cluster cache; for images: the figure, the diagram"),
    (r"(?:hold|holds|held|holding) room", "reserve capacity, reserved capacity"),
    (r"room (?:is|was|has to be|had to be|to be|has been|must be) made", "preempt to free capacity"),
    (r"(?:has|have|had) to go|must go", "must be evicted"),
    (r"(?:goes|go|going) as a whole", "is evicted as a whole"),
    (r"as the cluster would be", "after the change"),
    (r"virtual time", "simulated time"),
    (r"its like|their like|of the like", "similar pods; name them"),
    (r"with (?:it|them|that unit|the unit|the victim|your pod) back", "if it stayed; if the unit stays"),
    (r"tried together fit|fits? none of", "fit when tried together; fit on 0 of N nodes"),
    (r"left unsaid", "missing, not reported"),
    (r"what waits for long", "long-pending workloads"),
    (r"anew", "again; recreated, computed again"),
    (r"for ever", "forever"),
    (r"on (?:its|their) way out", "terminating"),
    (r"worked out", "computed"),
    (r"(?:go|goes|went) whole", "is evicted as a whole"),
    (r"(?:take|takes|took|taking) note", "record"),
    (r"(?:come|comes|came) to nothing", "has no result; failed"),
    (r"(?:is|are|was) left as (?:it was|they were)", "is not changed"),
    (r"leaves? (?:the \w+|it) as it was", "does not change"),
    (r"(?:has|have|had) (?:its|their) say", "after calling; decides"),
    (r"(?:becomes?|became) of", "happens to, happened to"),
)
# Parts of names that code defines, in snake case: class, function, argument, variable, module.
NAMES: tuple[tuple[str, str], ...] = (
    (r"who|whom|whose|whoever|nobody|somebody|everybody|anybody", "a noun for the thing"),
    (r"held_room", "reserved_capacity"),
    (r"put_off", "deferred"),
    (r"in_vain", "without_success"),
    (r"at_odds", "conflicting"),
    (r"virtual_time", "simulated_time"),
)
# Names of variables and parameters in the sources of packages that do not say what they hold.
_VAGUE_NAMES = "found one ones each there here other others asked told this that these those it some such thing made"
VAGUE = frozenset(re.findall(r"\w+", _VAGUE_NAMES))
COMPARISONS = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))
"""Methods with an operand that may be called `other`."""

# Beginnings of sentences on Markdown pages, and what to write instead.
INVERSIONS: tuple[tuple[str, str], ...] = (
    (r"What (?:is|are|was|were) \w+(?: \w+){0,5}? (?:is|are|counts?|goes|stays?|gets?|has) ", "subject first"),
    (r"(?:Tried|Told|Said|Asked|Compared|Counted|Kept|Measured|Held) (?:is|are|was|were) ", "subject first"),
    (r"Nor (?:is|are|does|do|has|have|was|were|counts?) ", "a plain sentence with no or not"),
)
PARTICIPLES = frozenset(
    [
        "binding",
        "breaking",
        "caching",
        "decoding",
        "matching",
        "scheduling",
        "sizing",
        "testing",
        "wording",
    ]
)
"""Words in -ing that may name a module: terms of the field, and nouns."""


@dataclass(frozen=True)
class Allowed:
    """A use of a listed word that stays, and why."""

    path: str
    around: str
    reason: str


EXCEPTIONS: tuple[Allowed, ...] = (
    Allowed("*", r"[Ww]ho (?:may|can) (?:set|write|read|change|create|use)", "users with a right"),
    Allowed("*", r"(?:users|people|authors|operators|readers|maintainers|programs) who", "persons"),
)
# Which module keeps a class name that two use: the one that matches first.
PRECEDENCE = (
    "kube_rules", "reprieve/cluster", "reprieve/framework", "reprieve/scheduling", "reprieve/preemption",
    "reprieve/queueing", "reprieve/plugins", "reprieve/live", "reprieve/client", "reprieve/decisions",
    "reprieve/observability", "kube_standin", "reprieve/simulation", "reprieve/questions", "reprieve/replay",
    "reprieve/python", "reprieve/cli", "",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Finding:
    """What is wrong in a line of a file."""

    path: str
    line: int
    text: str


# White space between words in Markdown, in comments, and in literals that stand one after another.
SPACE = r"[\s#\"']+(?:[fr]+[\"'])?"


@lru_cache
def _compiled(table: tuple[tuple[str, str], ...], names: bool) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return one pattern for the table, a group for each row, and what to write instead of each."""
    before, after = (r"(?:\b|_)", r"(?=\b|_)") if names else (r"\b(?<![`.-])", r"(?![\w`]|-\w)")
    rows = "|".join(f"({pattern.replace(' ', SPACE)})" for pattern, _ in table)
    return re.compile(f"{before}(?:{rows}){after}", re.IGNORECASE), tuple(instead for _, instead in table)


def _words(path: str, text: str) -> Iterator[Finding]:
    """Find the listed words in a text of the same lines as the file."""
    pattern, instead = _compiled(WORDS, False)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for match in pattern.finditer(text):
        if not _allowed(path, text, match):
            word = " ".join(match[0].split())
            line = bisect_right(starts, match.start())
            yield Finding(path, line, f'"{word}": {instead[(match.lastindex or 1) - 1]}')


def _allowed(path: str, text: str, match: re.Match[str]) -> bool:
    """Return whether an exception covers the word where it stands."""
    first, last = max(0, match.start() - 80), match.end() + 80
    return any(
        use.start() <= match.start() and match.end() <= use.end()
        for exception in EXCEPTIONS
        if fnmatch(path, exception.path)
        for use in re.compile(exception.around.replace(" ", SPACE)).finditer(text, first, last)
    )


def _pages(path: str, text: str) -> Iterator[Finding]:
    """Find long lines outside tables and code, and inverted sentences, on a Markdown page."""
    code = False
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*(?:```|~~~)", line) is not None
        code ^= fence
        skipped = fence or code or re.match(r"\s*(?:\||<|!\[)", line)
        lines.append("" if skipped else line)
        if not skipped and len(line) > MAX_MARKDOWN and not line.startswith("#"):
            yield Finding(path, number, f"{len(line)} characters; at most {MAX_MARKDOWN}")
    prose_text = "\n".join(lines) + "\n"
    for pattern, instead in INVERSIONS:
        beginning = rf"(?:(?<=[.:]\s)|(?<=\n\n)|(?<=^\d\. )|(?<=^- )){pattern.replace(' ', SPACE)}"
        for match in re.finditer(beginning, prose_text, re.MULTILINE):
            line_number = prose_text.count("\n", 0, match.start()) + 1
            yield Finding(path, line_number, f'"{" ".join(match[0].split())}": {instead}')


def _module_name(path: str) -> Iterator[Finding]:
    """Find a module of a package with a name in -ing that is no noun."""
    last = Path(path).stem.split("_")[-1]
    if last.endswith("ing") and last not in PARTICIPLES:
        yield Finding(path, 1, f"the module `{Path(path).stem}`: a noun for what it holds")


def _snake(name: str) -> str:
    """Return a name in snake case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _fields(nodes: Sequence[ast.AST]) -> set[int]:
    """Return the ids of the nodes that name annotated fields of classes."""
    return {
        id(statement.target)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }


def _defined(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines; annotated fields of classes stay out, they are names of JSON fields."""
    fields = _fields(nodes)
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id


def _names(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Find the listed parts in the names that a module defines, its own name included."""
    pattern, instead = _compiled(NAMES, True)
    for line, name in [(1, Path(path).stem), *_defined(nodes)]:
        match = pattern.search(_snake(name))
        if match is not None:
            yield Finding(path, line, f"the name `{name}`: {instead[(match.lastindex or 1) - 1]}")


def _vague(path: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Find variables and parameters with a name of `VAGUE`."""
    kept = _fields(nodes)
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name in COMPARISONS:
            kept.add(id(node.args.args[1]))
    for node in nodes:
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
        if name in VAGUE and id(node) not in kept and not isinstance(getattr(node, "ctx", None), ast.Load):
            yield Finding(path, node.lineno, f"the name `{name}`: a noun for what it holds")


def prose(source: str) -> str:
    """Return a Python source with all but comments and string literals blanked; lines stay where they are.

    A literal that is one identifier is blanked too: it is the name of a field. So is what braces of f-strings hold.
    """
    lines = source.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    blank = [char if char.isspace() else "\x01" for char in source]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        start = offsets[token.start[0] - 1] + token.start[1]
        kept = token.string
        if token.type == tokenize.COMMENT:
            kept = " " + kept[1:]
        else:
            prefix = re.match(r"""(\w*)('''|\"\"\"|'|")""", kept)
            assert prefix is not None
            inner = kept[prefix.end() : -len(prefix[2])]
            if re.fullmatch(r"[\w.-]+", inner):
                inner = "\x01" * len(inner)
            if "f" in prefix[1].lower():
                inner = re.sub(r"\{[^{}]*\}", lambda found: "\x01" * len(found[0]), inner)
            kept = " " * prefix.end() + inner + " " * len(prefix[2])
        blank[start : start + len(kept)] = kept
    return "".join(blank)


def _reason(lines: Sequence[str], first: int, last: int) -> bool:
    """Return whether one of these lines, counted from 1, gives a reason for its length."""
    return any(re.search(r"# long: \S", line) for line in lines[max(first - 1, 0) : last])


def _sizes(path: str, source: str, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    """Find files and functions that are longer than they may be without a reason."""
    lines = source.splitlines()
    if len(lines) > MAX_FILE and not any(re.match(r"# long: \S", line) for line in lines):
        yield Finding(path, 1, f"{len(lines)} lines; at most {MAX_FILE}, or `# long: REASON`")
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION and not _reason(lines, node.lineno - 1, node.body[0].end_lineno or node.lineno):
                text = f"`{node.name}` has {length} lines; at most {MAX_FUNCTION}, or `# long: REASON`"
                yield Finding(path, node.lineno, text)


def _rank(path: str) -> int:
    """Return how early a module stands in `PRECEDENCE`."""
    return next(index for index, part in enumerate(PRECEDENCE) if f"/src/{part}" in path)


def duplicates(classes: dict[str, list[tuple[str, int]]]) -> Iterator[Finding]:
    """Find class names that two modules define; the finding is the later one's."""
    for name, places in classes.items():
        keeper, *later = sorted(places, key=lambda place: (_rank(place[0]), place))
        for path, line in later:
            yield Finding(path, line, f"`{name}` is also a class of {keeper[0]}:{keeper[1]}")


def undocumented(definitions: Sequence[tuple[str, ast.ClassDef]]) -> Iterator[Finding]:
    """Find public methods of public classes that have no docstring, neither their own nor an inherited one."""
    by_name = {definition.name: definition for _, definition in definitions}

    def is_documented(definition: ast.ClassDef, name: str) -> bool:
        own = (node for node in definition.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        bases = (re.search(r"(\w+)(?:\[.*)?$", ast.unparse(base)) for base in definition.bases)
        above = (by_name.get(base[1]) for base in bases if base is not None)
        return any(node.name == name and ast.get_docstring(node) for node in own) or any(
            is_documented(base, name) for base in above if base is not None and base is not definition
        )

    for path, definition in definitions:
        for node in definition.body if not definition.name.startswith("_") else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
                if not decorators & {"overload", f"{node.name}.setter"} and not is_documented(definition, node.name):
                    yield Finding(path, node.lineno, f"`{definition.name}.{node.name}` has no docstring")


def tracked() -> list[str]:
    """List the files that are checked, as paths from the root."""
    texts = ["*.md", "deploy/*.yaml", "deploy/*.txt", "packages/*/tests/*.yaml", "tests/*.yaml"]
    patterns = [*texts, "packages/*.py", "tests/*.py", "conftest.py", "examples/*.py", "tools/*.py"]
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    ours = Path(__file__).name  # it has the words in its tables
    return sorted({path for path in listed if (ROOT / path).is_file() and not path.endswith(ours)})


def _text(path: str) -> str:
    """Read a file; of the changelog only what no release has."""
    text = (ROOT / path).read_text()
    return text.split("<!-- releases, newest first")[0] if path == "CHANGELOG.md" else text


def findings(paths: Sequence[str]) -> list[Finding]:
    """Return all findings in the files."""
    result: list[Finding] = []
    classes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    definitions: list[tuple[str, ast.ClassDef]] = []
    for path in paths:
        text = _text(path)
        if not path.endswith(".py"):
            result += _words(path, text)
            if path.endswith(".md") and not path.startswith(WRITTEN_BY_TOOLS):
                result += _pages(path, text)
            continue
        product = fnmatch(path, "packages/*/src/*")
        has_names = product or _compiled(NAMES, True)[0].search(_snake(text))
        nodes = list(ast.walk(ast.parse(text))) if has_names else []
        if product:
            result += _sizes(path, text, nodes)
            result += _module_name(path)
            result += _vague(path, nodes)
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append((path, node.lineno))
                    definitions.append((path, node))
        if next(_words(path, text), None):  # a source in which the words are nowhere needs no closer look
            result += _words(path, prose(text))
        result += _names(path, nodes)
    result += duplicates(classes)
    result += undocumented(definitions)
    return sorted(set(result))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is found; return 1 if there is something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", default=[ROOT], help="print findings in these alone")
    options = parser.parse_args(arguments)
    wanted = [Path(path).resolve() for path in options.paths]
    result = [
        finding
        for finding in findings(tracked())
        if any((ROOT / finding.path).resolve().is_relative_to(path) for path in wanted)
    ]
    for finding in result:
        print(f"{finding.path}:{finding.line}: {finding.text}")
    print(f"{len(result)} findings" if result else "words, class names and sizes: nothing found", file=sys.stderr)
    if result:
        print("Words: CONTRIBUTING.md", file=sys.stderr)
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
