"""Manifests from the command line: unknown fields and kinds in them are warnings, or errors where that was asked for.

A warning on stderr by default; with `--strict` exit code 2.  Where an answer is asked for as an exit code
(`--fail-on-*`), an input that is not answered for as a whole is bad input too: else it would be a green answer to
another question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reprieve.cli.outcome import note, refuse
from reprieve.python import remarks

if TYPE_CHECKING:
    from kube_rules.manifests import Manifests
    from kube_rules.objects import PriorityClass
    from kube_rules.unknown_fields import UnknownField
    from reprieve.simulation.workloads.expanding import Expansion
    from reprieve.simulation.workloads.rows import Rows

MOST_LINES = 20
"""Warnings of one sort; what is alike is one line, and the rest is counted."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """What to make of what is not understood."""

    unknown_fields: bool = True
    """Warn of them."""
    strict: bool = False
    """Unknown fields, and annotations that cannot be read, are an error."""
    answer_for_all: str = ""
    """The option for which it is an error that not everything is answered for; empty: none was given."""
    lenient: bool = False
    """Workloads that cannot be expanded are a warning."""


def read_files(
    files: Sequence[str],
    max_bytes: int,
    strictness: Strictness,
    *,
    complete: bool = True,
    classes: "Sequence[PriorityClass]" = (),
    stdin: bytes | None = None,
) -> "Manifests":
    """Load manifests (`inputs.loading.load`) and warn of unknown fields. Raises InputError.

    `stdin`: what was read from it before; it can be read only once.
    """
    from io import BytesIO

    from kube_rules.errors import InputError
    from kube_standin.unknown_fields import PackedSchemas
    from reprieve.inputs.loading import load

    try:
        given = BytesIO(stdin) if stdin is not None else None
        found = load(
            files, max_bytes=max_bytes, stdin=given, complete=complete, classes=classes, schemas=PackedSchemas()
        )
    except InputError as error:
        if strictness.unknown_fields:
            _warn(getattr(error, "__notes__", ()))
        raise
    if not (found.objects or found.pod_makers or found.scenarios or found.unknown):
        note(f"warning: {remarks.nothing_in(files)}")
    _report_unknown_fields(found.unknown_fields, found.unknown_fields_total, strictness)
    if strictness.strict:
        _refuse_misread(found)
    return found


def _refuse_misread(manifests: "Manifests") -> None:
    """Annotations that a scheduler would warn of and leave aside are bad input where nothing may be left aside."""
    from reprieve.simulation.plan_inputs import misread_annotations

    found = misread_annotations(manifests.all())
    if found:
        count = "1 annotation" if len(found) == 1 else f"{len(found)} annotations"
        refuse(f"--strict: {count} that cannot be read; the first is {found[0]}")


def report_unread_of_kubeconfig(found: "Sequence[UnknownField]", strictness: Strictness) -> None:
    """The same for unknown fields of a kubeconfig."""
    _report_unknown_fields(found, len(found), strictness)


def _report_unknown_fields(found: "Sequence[UnknownField]", total: int, strictness: Strictness) -> None:
    if not found or not strictness.unknown_fields:
        return
    _warn(remarks.of_unknown_fields(found))
    if strictness.strict:
        refuse(f"--strict: {total} unknown field{'s' if total > 1 else ''}; the first is {found[0]}")


def expanded(
    manifests: "Manifests",
    strictness: Strictness,
    *,
    rows: "Rows | None" = None,
    run: Sequence[str] = (),
    now: float | None = None,
) -> "Expansion":
    """An input, with the cluster it is added to, and the pods that its workloads call for (whatif.md 1).

    What calls for pods and cannot be expanded is an error, with `--lenient` a warning; what only may is a warning, and
    an error where everything is to be answered for. Raises InputError.
    """
    from reprieve.simulation.workloads.expanding import expand
    from reprieve.simulation.workloads.table import TABLE

    made = expand(manifests, rows=rows or TABLE, run=run, now=now)
    _report_unknown_fields(made.unknown_fields, len(made.unknown_fields), strictness)
    found = made.problems
    unread = [each for each in made.manifests.remarks if each.strict]
    if unread and strictness.strict:
        refuse(f"--strict: {unread[0]}{f' (and {len(unread) - 1} more)' if len(unread) > 1 else ''}")
    _warn(remarks.of_suspended(made))
    if not found:
        return made
    certain = [each for each in found if each.certain]
    if strictness.answer_for_all:
        _warn(remarks.of_problems(made))
        many = f"{len(found)} objects are" if len(found) > 1 else "1 object is"
        refuse(
            f"{strictness.answer_for_all}: {many} not answered for (--lenient: plan without); the first is {found[0]}"
        )
    if certain and not strictness.lenient:
        more = f" (and {len(certain) - 1} more)" if len(certain) > 1 else ""
        refuse(f"{certain[0]}{more}")
    _warn(remarks.of_problems(made))
    return made


def read_workload_kinds(files: Sequence[str]) -> "Rows | None":
    """The table of kinds with the rows of these files on top; None without files. Bad ones end the command."""
    if not files:
        return None
    from pathlib import Path

    from kube_rules.errors import InputError
    from reprieve.cli.outcome import reason_of
    from reprieve.simulation.workloads.rows import MOST_BYTES, read_rows
    from reprieve.simulation.workloads.table import TABLE

    rows = TABLE
    for file in files:
        try:
            with Path(file).open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                refuse(f"{file}: larger than {MOST_BYTES} bytes")
            rows = rows.with_more(read_rows(file, data.decode()))
        except InputError as error:
            refuse(str(error))
        except UnicodeDecodeError:
            refuse(f"{file}: not UTF-8 text")
        except OSError as error:
            refuse(reason_of(error))
    return rows


def _warn(lines: Sequence[str]) -> None:
    for line in lines[:MOST_LINES]:
        note(f"warning: {line}")
    if len(lines) > MOST_LINES:
        note(f"warning: ... and {len(lines) - MOST_LINES} more of this sort")
