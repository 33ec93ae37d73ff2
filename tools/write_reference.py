"""Write docs/reference from the code: commands, annotations and labels, configuration, metrics, the Python API.

The lists of limits and of what is not served in docs/apiserver.md come from the code, too.

    write_reference.py           write the pages
    write_reference.py --check   fail if a page is not what the code says

What a page says of an option, a field, a gate or a metric is the help text or the docstring beside its definition.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
import typer

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by tools/write_reference.py from the code: change the code, then run it. -->\n"
NODE_REQUESTS = "reprieve.live.node_requests"
KUBELET, JOBS = "kube_standin.kubelet.settings", "kube_rules.controllers.job_groups"
WORK, OWNERS, SOURCES = "kube_rules.work_annotations", "kube_rules.group_owners", "kube_rules.group_sources"
PRIORITIES, TERMS = "kube_rules.admission.priorities", "kube_rules.topology_terms"


# -- what the code says -----------------------------------------------------------------------------------------------


@lru_cache
def docstrings(module: str) -> dict[str, str]:
    """Return the docstrings of a module's constants, and of the fields of its classes as `CLASS.FIELD`."""
    texts: dict[str, str] = {}

    def read(statements: Sequence[ast.stmt], prefix: str) -> None:
        for statement, after in pairwise(statements):
            target = getattr(statement, "target", None) or next(iter(getattr(statement, "targets", ())), None)
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(target, ast.Name):
                texts[prefix + target.id] = " ".join(str(after.value.value).split())

    source = import_module(module).__file__
    assert source is not None
    tree = ast.parse(Path(source).read_text())
    read(tree.body, "")
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            read(node.body, f"{node.name}.")
    return texts


def first_sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def cell(text: str) -> str:
    """Return a text as the cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# -- commands ---------------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return the page of commands: options, defaults and exit codes."""
    from reprieve.cli.commands import app
    from reprieve.cli.outcome import FAILED_WHEN, Exit

    meanings = docstrings("reprieve.cli.outcome")
    codes = ((str(int(code)), meanings[f"Exit.{code.name}"].replace("`FAILED_WHEN` lists them", "see the command"))
             for code in Exit)  # fmt: skip
    parts = [
        "# Commands",
        "`reprieve COMMAND --help` prints the same for one command. `-h` is short for `--help`.",
        "## Exit codes",
        table(("code", "meaning"), codes),
    ]
    program: Any = typer.main.get_command(app)
    for name, command in _visible(program, ""):
        context = typer.Context(command, info_name=f"reprieve {name}")
        parts += [f"## {name}", "```text\n" + command.get_usage(context).replace("Usage: ", "") + "\n```"]
        parts.append(_marked(_text(command.help or "")))
        records = [parameter.get_help_record(context) for parameter in command.params]
        rows = [_option(*record) for record in records if record is not None]
        if rows:
            parts.append(table(("option", "meaning", "default"), rows))
        if name in FAILED_WHEN:
            parts.append(f"Exit code 1: {_marked(FAILED_WHEN[name])}.")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _marked(text: str) -> str:
    """Return a text with its options as code, except in code."""
    return re.sub(r"(`+)[^`]*\1|(?<!\w)--[a-z-]+", lambda found: found[0] if found[1] else f"`{found[0]}`", text)


def _text(text: str) -> str:
    """Return a help text with a paragraph to a line; a paragraph after a backspace keeps its lines."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        "```text\n" + part.strip("\b\n") + "\n```" if part.startswith("\b") else " ".join(part.split())
        for part in paragraphs
    )


def _visible(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group that are listed, those of its groups included."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            if (default := getattr(command, "default", None)) is not None:
                yield prefix + name, command.commands[default]
            yield from _visible(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def _option(names: str, text: str) -> tuple[str, str, str]:
    """Return the row of an option from the two columns of its help."""
    marks = re.search(r"\s*\[([^\[\]]*)\]$", text)
    given = marks[1].split("; ") if marks else []
    default = next((mark.removeprefix("default: ") for mark in given if mark.startswith("default: ")), "")
    more = [mark for mark in given if not mark.startswith("default: ")]
    text = text[: marks.start()] if marks else text
    return f"`{names}`", " ".join((text, *(f"({mark})" for mark in more))), f"`{default}`" if default else ""


# -- annotations and labels -------------------------------------------------------------------------------------------


class Key(NamedTuple):
    """An annotation or a label: the constant that has its name, and what its code has no words for."""

    module: str
    constant: str
    on: str
    writer: str
    values: str
    default: str


_DURATION, _TIME, _GROUP = "a duration such as `90s` or `1h30m`", "a time (RFC 3339)", "the name of a group"
_WORKERS, _ADMIN = "users, within the grant of the class", "administrators"
_WORK_KINDS = "Pod, PodGroup, CompositePodGroup, PriorityClass"
KEYS: dict[str, tuple[Key, ...]] = {
    "Annotations: the cost of an eviction": (
        Key(WORK, "LAST_CHECKPOINT", _WORK_KINDS, "users", _TIME, "none: the start counts"),
        Key(WORK, "CHECKPOINT_INTERVAL", _WORK_KINDS, "users", _DURATION, "none"),
        Key(WORK, "RESTART_COST", _WORK_KINDS, _WORKERS, _DURATION, "`0s`"),
        Key(WORK, "MINIMUM_RUNTIME", _WORK_KINDS, _WORKERS, _DURATION, "`0s`"),
        Key(WORK, "PREEMPTION_DELAY", _WORK_KINDS, "users", _DURATION, "`0s`"),
        Key(WORK, "EXPECTED_END", _WORK_KINDS, "users", _TIME, "none"),
        Key(WORK, "EXPECTED_RUNTIME", _WORK_KINDS, "users", _DURATION, "none"),
        Key(WORK, "BELOW_MINIMUM", _WORK_KINDS, _WORKERS, "`Whole`, `Protect`", "the remaining pods keep running"),
        Key(WORK, "MOVABLE", _WORK_KINDS, "users", "`true`, `false`", "`false`"),
        Key(WORK, "RECOVERY_POLICY", "PodGroup, CompositePodGroup", "users", "`Keep`, `Restart`", "`Keep`"),
        Key(WORK, "BACKFILLED_UNTIL", "Pod", "the scheduler", _TIME, "not backfilled"),
    ),
    "Annotations: priority as a victim": (
        Key(PRIORITIES, "PREEMPTION_PRIORITY_CLASS", "PodGroup, CompositePodGroup", _WORKERS,
            "the name of a PriorityClass", "the priority of the group"),
        Key(PRIORITIES, "PREEMPTION_PRIORITY", "PodGroup, CompositePodGroup", "admission", "an integer of 32 bits",
            "set by admission"),
    ),
    "Annotations: topology": (
        Key(TERMS, "PREFERRED_TOPOLOGY", "Pod, PodGroup, CompositePodGroup", "users",
            "levels, such as `rack,block`: `region`, `zone`, `block`, `rack`, `host` or node labels", "none"),
        Key(TERMS, "SLICE", "Pod, PodGroup, CompositePodGroup", "users", "a level and a number, such as `rack=8`",
            "none"),
    ),
    "Annotations: what a PriorityClass grants": (
        Key(WORK, "PDB_POLICY", "PriorityClass", _ADMIN, "`BestEffort`, `Respect`", "`BestEffort`"),
        Key(WORK, "MAY_BREAK_MINIMUM_RUNTIME", "PriorityClass", _ADMIN, "`true`, `false`", "`false`"),
        Key(WORK, "MAX_PREEMPTION_PRIORITY", "PriorityClass", _ADMIN, "an integer of 32 bits",
            "the priority of the group"),
        Key(WORK, "MAX_MINIMUM_RUNTIME", "PriorityClass", _ADMIN, _DURATION, "`1h`"),
        Key(WORK, "MAX_RESTART_COST", "PriorityClass", _ADMIN, _DURATION, "`1h`"),
        Key(WORK, "ALLOW_BELOW_MINIMUM", "PriorityClass", _ADMIN, "`true`, `false`", "`true`"),
        Key(WORK, "MAX_PROTECTED_PRIORITY", "PriorityClass", _ADMIN, "an integer of 32 bits",
            "the priority of the group"),
        Key(WORK, "GRANT_NAMESPACES", "PriorityClass", _ADMIN, "namespaces, separated by commas", "all namespaces"),
    ),
    "Annotations: gangs of controllers": (
        Key(OWNERS, "GANG", "Job, JobSet, LeaderWorkerSet, RayCluster and other controllers", "users", "`true`",
            "no gang"),
        Key(JOBS, "POD_GROUP", "Job", "users", "`true`", "no group"),
        Key(JOBS, "DISRUPTION_MODE", "Job", "users", "`all`, `single`", "`single`"),
        Key(JOBS, "TOPOLOGY_KEY", "Job", "users", "the key of a node label", "none"),
    ),
    "Labels and annotations that name the group of a pod": (
        Key(SOURCES, "OWN_LABEL", "Pod (label)", "users", _GROUP, ""),
        Key(SOURCES, "COSCHEDULING_LABEL", "Pod (label)", "users", _GROUP, ""),
        Key(SOURCES, "VOLCANO_ANNOTATIONS", "Pod", "users, the Volcano controllers", _GROUP, ""),
        Key(SOURCES, "VOLCANO_LABEL", "Pod (label)", "users", _GROUP, ""),
        Key(SOURCES, "TASK_ANNOTATION", "Pod", "the Volcano controllers", "the name of a task", ""),
        Key(SOURCES, "KUEUE_LABEL", "Pod (label)", "users", _GROUP, ""),
        Key(SOURCES, "KUEUE_TOTAL", "Pod", "users", "the number of pods of the group", ""),
        Key(SOURCES, "QUEUE_KEYS", "Pod, groups (label or annotation)", "users", "the name of a queue", ""),
    ),
    "Annotations: nodes for gangs": (
        Key(NODE_REQUESTS, "ANNOTATION", "PodGroup, CompositePodGroup", "users", "`true`, `false`",
            "as `provisioningRequests` sets it"),
        Key(NODE_REQUESTS, "FOR", "ProvisioningRequest, PodTemplate", "the scheduler", "`group/NAMESPACE/NAME`", ""),
        Key(NODE_REQUESTS, "TURN", "ProvisioningRequest, PodTemplate", "the scheduler", "a number", "`0`"),
        Key("reprieve.decisions.requested_nodes", "STATE", "Pod", "the scheduler",
            "`Pending`, `Accepted`, `Provisioned`, `Failed`, `CapacityRevoked`, `BookingExpired` or `Deleted`, with "
            "reason and message", "no nodes are requested"),
    ),
    "Annotations: simulated kubelets": (
        Key(KUBELET, "RUN_SECONDS", "Pod", "users", "seconds", "until the pod is deleted"),
        Key("kube_standin.pod_usage", "USAGE_PERCENT", "Pod", "users", "percent, 0 to 100000", "`100`"),
        Key(KUBELET, "EXIT_CODE", "Pod", "users", "an exit code", "`0`"),
        Key(KUBELET, "INIT_EXIT_CODE", "Pod", "users", "an exit code", "`0`"),
        Key(KUBELET, "MISSING_CONFIG", "Pod, Namespace", "users", "`ignore`", "the pod waits for them"),
        Key(KUBELET, "START_SECONDS", "Pod", "users", "seconds", "the option of the fleet"),
        Key(KUBELET, "STOP_SECONDS", "Pod", "users", "seconds, up to the grace period", "the option of the fleet"),
        Key(KUBELET, "KUBELET", "Node", "users", "`none`, `down`", "a simulated kubelet"),
    ),
}  # fmt: skip


def names_of(key: Key) -> tuple[str, ...]:
    """Return the names that a constant has: one, or several."""
    value = getattr(import_module(key.module), key.constant)
    return (value,) if isinstance(value, str) else tuple(value)


def annotations() -> str:
    """Return the page of annotations and labels."""
    parts = [
        "# Annotations and labels",
        "Every annotation and label that reprieve and kube-standin read or write beside those of Kubernetes itself. "
        "A value that cannot be read counts as absent and is reported as a warning or an event.",
        "*Users* may set a key on every object that they may write. *Within the grant of the class*: the value counts "
        "up to the bound that the PriorityClass of the object sets (["
        "cost](../cost.md#limit-what-users-may-protect)). A pod's annotation comes before that of its group, "
        "and that before the default on the PriorityClass.",
    ]
    for title, keys in KEYS.items():
        rows = (
            (", ".join(f"`{name}`" for name in names_of(key)), key.on, key.writer, key.values, key.default,
             docstrings(key.module)[key.constant])
            for key in keys
        )  # fmt: skip
        parts += [f"## {title}", table(("key", "on", "who may set it", "values", "default", "meaning"), rows)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


# -- configuration ----------------------------------------------------------------------------------------------------


def configuration() -> str:
    """Return the page of the configuration file: fields, plugins and their args, feature gates."""
    from reprieve.framework import configuration as form
    from reprieve.framework.gates import FeatureGates
    from reprieve.scheduling.profiles import DEFAULT_WEIGHTS, REGISTRY

    parts = [
        "# Configuration file",
        "A `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`. [Configuration](../configuration.md) "
        "explains it with examples. *Ours* marks what kube-scheduler does not have.",
        "## Fields",
    ]
    parts.append(table(("field", "type", "default", "meaning"), _fields(form.SchedulerConfiguration, "")))
    points = ", ".join(f"`{name}`" for name, _ in form.Plugins().points())
    parts.append(
        f"`profiles[].plugins` has `multiPoint` and these extension points: {points}. Each has a list `enabled` "
        "(`name`, and `weight` for scores, 1 by default) and a list `disabled` (`name`, or `*` for all). "
        "`preFilter` follows `filter`, `preScore` follows `score`."
    )
    parts += ["## Plugins", "In the order in which they run."]
    structs = {name: _args_of(factory) for name, factory in REGISTRY.items()}
    plugins = (
        (name, str(DEFAULT_WEIGHTS.get(name, "")), f"[args](#args-of-{name.lower()})" if struct else "")
        for name, struct in structs.items()
    )
    parts.append(table(("plugin", "score weight", "args"), plugins))
    for name, struct in structs.items():
        if struct is not None:
            rows = [row for row in _fields(struct, "") if row[0] not in ("`apiVersion`", "`kind`")]
            parts += [f"### Args of {name}", table(("arg", "type", "default", "meaning"), rows)]
    parts += ["## Feature gates", "`--feature-gates A=true,B=false`. Gates of kube-scheduler that are not listed are "
              "accepted with a note and change nothing; unknown gates are refused."]  # fmt: skip
    texts = docstrings("reprieve.framework.gates")
    rows_of_gates = (
        (f"`{_gate(name)}`", "on" if getattr(FeatureGates(), name) else "off", texts.get(f"FeatureGates.{name}", ""))
        for name in FeatureGates.__dataclass_fields__
    )
    parts.append(table(("gate", "default", "meaning"), rows_of_gates))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _gate(name: str) -> str:
    """Return the name of a gate as the command line has it."""
    return "".join(part.upper() if part == "dra" else part.capitalize() for part in name.split("_"))


def _args_of(factory: Any) -> type | None:
    """Return the struct of the args that a plugin takes."""
    from reprieve.scheduling import plugin_args

    if factory.__module__ != plugin_args.__name__:
        return None
    names = (name for name in factory.__code__.co_names if name.endswith("Args"))
    return next((getattr(plugin_args, name) for name in names if hasattr(plugin_args, name)), None)


def _fields(struct: type, prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (path, type, default, meaning) of the fields of a struct and of the structs in them."""
    texts = docstrings(struct.__module__)
    for field in msgspec.structs.fields(struct):
        path = prefix + field.encode_name
        inner, shown = _shown_type(field.type)
        if inner is not None and inner.__name__ == "PluginSet":
            continue
        default = field.default
        if inner is not None:
            default = ""
        text = texts.get(f"{struct.__name__}.{field.name}") or (first_sentence(inner.__doc__) if inner else "")
        required = default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        yield f"`{path}`", shown, "required" if required else _value(default), text
        if inner is not None:
            yield from _fields(inner, f"{path}{'[]' if shown.startswith('list') else ''}.")


def _value(default: object) -> str:
    """Return a default as YAML has it; nothing for what is empty."""
    if default in (None, "", b"", (), {}) or default is msgspec.NODEFAULT or isinstance(default, msgspec.Struct):
        return ""
    if isinstance(default, tuple):
        inner = ", ".join(getattr(item, "name", str(item)) for item in default)
        return f"`[{inner}]`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


_NAMES = {str: "string", int: "integer", bool: "boolean", float: "number", bytes: "base64", dict: "map", Any: "any"}


def _shown_type(kind: Any) -> tuple[type | None, str]:
    """Return the struct that a type holds, if it is one of ours, and the type in words."""
    if get_origin(kind) is Annotated:
        return _shown_type(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        parts = [_shown_type(part) for part in get_args(kind) if part is not NoneType]
        return next((inner for inner, _ in parts if inner), None), " or ".join(shown for _, shown in parts)
    if get_origin(kind) is tuple:
        inner, shown = _shown_type(get_args(kind)[0])
        return inner, f"list of {shown}"
    if get_origin(kind) is dict:
        return None, "map"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        ours = kind.__module__.startswith("reprieve.")
        return (kind if ours else None), "object" if ours else kind.__name__
    return None, _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


# -- metrics ----------------------------------------------------------------------------------------------------------


def metrics() -> str:
    """Return the page of metrics."""
    from reprieve.live.shadow_ledger import ShadowLedger
    from reprieve.observability.database.metrics import SpoolMetrics
    from reprieve.observability.metrics import Metrics
    from reprieve.observability.runtime_metrics import RuntimeMetrics
    from reprieve.observability.shadow_metrics import ShadowMetrics
    from reprieve.observability.store import MemoryStore
    from reprieve.testing import World

    served = Metrics(process=False)
    RuntimeMetrics(served.registry)
    SpoolMetrics(served.registry, MemoryStore())
    engine = World().engine
    ledger = ShadowLedger(engine.cluster, patience=60.0)
    ShadowMetrics(served.registry, lambda: ledger.report(schedulers=(), since=0.0, now=0.0), lambda: 0)
    served.attach(engine)
    served.read_engine()
    labels = {
        wrapper._name: wrapper._labelnames
        for wrapper in served.registry._collector_to_names
        if hasattr(wrapper, "_labelnames")
    }
    rows = []
    for family in served.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        keys = getattr(family, "_labelnames", None) or labels.get(family.name, ())
        if not keys and family.name not in labels:
            keys = sorted({key for sample in family.samples for key in sample.labels} - {"le"})
        rows.append((f"`{name}`", family.type, ", ".join(keys), family.documentation))
    parts = [
        "# Metrics",
        "`GET /metrics` of the scheduler, in the text format of Prometheus, with `process_*` besides. Names, labels "
        "and buckets are those of kube-scheduler where it has the metric. [Observability](../observability.md) lists "
        "those that deserve an alert. Those of `reprieve_shadow` are served by a [shadow](../shadow.md) alone.",
        table(("name", "type", "labels", "meaning"), sorted(rows)),
    ]
    return "\n\n".join(parts)


# -- the Python API ---------------------------------------------------------------------------------------------------


def python() -> str:
    """Return the page of the Python API; mkdocstrings fills it in when the site is built."""
    import reprieve

    of_plugins = {name for name in reprieve.__all__ if reprieve._HOME[name].startswith("reprieve.framework")}
    parts = [
        "# Python API",
        "The names of the package `reprieve`: `from reprieve import NAME`. [From Python](../python.md) shows how to "
        "use them; everything else may move between releases. The documentation site shows signatures and docstrings.",
    ]
    for title, names in (("Plan and ask", set(reprieve.__all__) - of_plugins), ("Plugins", of_plugins)):
        parts += [f"## {title}", *(f"::: reprieve.{name}" for name in sorted(names))]
    return "\n\n".join(parts) + "\n"


PAGES = {
    "commands": commands,
    "annotations": annotations,
    "configuration": configuration,
    "metrics": metrics,
    "python": python,
}


def limits() -> str:
    """Return the table of what the API server bounds."""
    from served_limits import LIMITS

    return table(("what", "bound", "answer"), LIMITS)


def not_served() -> str:
    """Return the table of what the API server does not serve."""
    from served_limits import NOT_SERVED

    return table(("API", "answer"), NOT_SERVED)


PARTS = {ROOT / "docs" / "apiserver.md": {"limits": limits, "not served": not_served}}
"""Parts of pages, each between `<!-- NAME: ... -->` and `<!-- end -->`."""


def with_parts(text: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return a page with its written parts renewed. Raises ValueError if the page lacks one."""
    for name, write in parts.items():
        part = re.compile(rf"(<!-- {name}: [^>]*-->\n\n).*?(\n<!-- end -->)", re.DOTALL)
        text, found = part.subn(lambda match, write=write: match[1] + write() + match[2], text)  # type: ignore[misc]
        if found != 1:
            raise ValueError(f"the page has {found} parts {name!r}, expected one")
    return text


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page with its text."""
    for name, page in PAGES.items():
        heading, _, rest = page().partition("\n")
        yield FOLDER / f"{name}.md", f"{heading}\n\n{NOTE}{rest}"
    for path, parts in PARTS.items():
        yield path, with_parts(path.read_text(), parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or compare them; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is out of date")
    check = parser.parse_args(arguments).check
    stale = []
    for path, text in pages():
        if not path.exists() or path.read_text() != text:
            stale.append(path.relative_to(ROOT).as_posix())
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    if stale:
        state = "out of date, run tools/write_reference.py" if check else "written"
        print("\n".join(f"{path}: {state}" for path in stale), file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
