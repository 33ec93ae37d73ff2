"""`reprieve explain`: why a pod, a pod group or a tree of groups is pending or was preempted, and what would help."""

from typing import TYPE_CHECKING, Annotated

import typer

from reprieve.cli.documents import Format, document
from reprieve.cli.outcome import CommandError, Exit, note, refuse, show, warn
from reprieve.cli.progress import working
from reprieve.cli.source import RecordsOption, SuggestOption, gather, show_with_changes, source_of, warn_of_namespace

if TYPE_CHECKING:
    from reprieve.cli.evidence import Evidence, ExplainTarget, OwnerEvidence
    from reprieve.cli.render import RecordOf
    from reprieve.python.inputs import InputSource

_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "Pod"),
    **dict.fromkeys(("podgroup", "podgroups", "pg"), "PodGroup"),
    **dict.fromkeys(("compositepodgroup", "compositepodgroups", "cpg"), "CompositePodGroup"),
}


def command(
    context: typer.Context,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]TYPE[/NAME]",
            help="A pod, podgroup, compositepodgroup, or an owner such as a job or deployment.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name.", show_default=False)] = None,
    all_waiting: Annotated[
        bool, typer.Option("--all-waiting", help="Explain all pending workloads and what would help each of them.")
    ] = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NS",
            help="Namespace of the object. Default: that of the context. With --all-waiting: explain only workloads "
            "of this namespace; with --redact as well: show only names of this namespace.",
        ),
    ] = None,
    records: RecordsOption = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="For objects of other namespaces, show only kind and priority.")
    ] = False,
    suggest: SuggestOption = True,
    output: Annotated[Format, typer.Option("-o", "--output", help="Output format.")] = Format.TEXT,
) -> None:  # long: one parameter for each option, as typer wants them
    """Explain why a workload is pending or was preempted.

    Also shows what would help. Changes nothing. The answer comes from the scheduler's decision records. For manifests,
    with changes such as --drain, or without records it is computed.
    """
    source = source_of(context)
    if all_waiting:
        if kind is not None:
            refuse("--all-waiting cannot be combined with TYPE or NAME")
        _explain_all(source, namespace, output, redact=redact, suggest=suggest)
        return
    if kind is None:
        refuse("name the object to explain: TYPE NAME or TYPE/NAME, or --all-waiting")
    kind, name, namespace = _named(kind, name, namespace)
    if source.files or source.changes or source.run:
        if records is not None:
            source_option = "-f" if source.files else "changes or --run"
            refuse(f"--records cannot be combined with {source_option}")
        evidence = _worked_out(source, kind, name, namespace, suggest=suggest)
    else:
        evidence = _of_cluster(source, kind, name, namespace, records, suggest=suggest)
    if not evidence.exists and not evidence.records:
        target = evidence.target
        raise CommandError(
            f'{target.kind.lower()} "{target.name}" not found in namespace "{target.namespace}"', Exit.NOT_SO
        )
    if redact:
        from reprieve.cli.redaction import redacted

        evidence = redacted(evidence)
    for warning in evidence.warnings:
        note(f"warning: {warning}")
    from reprieve.cli.explain_text import document as explanation
    from reprieve.cli.explain_text import explanation_of

    if output is not Format.TEXT:
        show(document(explanation(evidence), output))
        return
    from reprieve.cli.terminal import show_sections

    sections = explanation_of(evidence)
    if evidence.changes:
        from reprieve.cli.render import changes_section

        sections = [section for section in (changes_section(evidence.changes), *sections) if section is not None]
    show_sections(sections)


def _named(kind: str, name: str | None, namespace: str | None) -> tuple[str, str, str | None]:
    """Return kind, name and namespace of TYPE NAME, TYPE/NAME or NAMESPACE/TYPE/NAME; bad usage ends the command."""
    entered = kind if name is None else f"{kind}/{name}"
    parts = entered.split("/")
    if len(parts) == 1:
        refuse(f"{entered!r}: expected TYPE NAME or TYPE/NAME, or --all-waiting")
    if not parts[-1]:
        refuse("the name is empty")
    if len(parts) > 3 or not all(parts):
        refuse(f"{entered}: expected TYPE NAME, TYPE/NAME or NAMESPACE/TYPE/NAME")
    if len(parts) == 2:
        return parts[0], parts[1], namespace
    # `job NAMESPACE/NAME` is how answers name it.
    space, kind = (parts[0], parts[1]) if name is None or "/" in kind else (parts[1], parts[0])
    if namespace not in (None, space):
        refuse(f"{entered}: the namespace differs from -n {namespace}")
    return kind, parts[2], space


def _worked_out(source: "InputSource", kind: str, name: str, namespace: str | None, *, suggest: bool) -> "Evidence":
    """Explain an object of the input."""
    from reprieve.cli.evidence import ExplainTarget
    from reprieve.cli.explain_files import evidence_of, resolved, without_refused

    space = namespace or (_namespace_of(source) if source.live else "default")
    gathered = gather(source)
    target, owner = (ExplainTarget(chosen, space, name) if (chosen := _KINDS.get(kind.lower())) else None), None
    if target is None:
        target, owner = resolved(gathered.with_makers, kind, name, space, source.rows)
    with working("computing the answer"):
        evidence = evidence_of(gathered, target, source, suggest=suggest)
    evidence.owner = without_refused(owner, gathered) if owner is not None else None
    return evidence


def _of_cluster(
    source: "InputSource", kind: str, name: str, namespace: str | None, records: str | None, *, suggest: bool
) -> "Evidence":
    """Explain an object of a live cluster from it and its scheduler's records."""
    import asyncio

    from reprieve.cli.evidence import ExplainTarget
    from reprieve.cli.evidence import gather as gather_evidence
    from reprieve.client.kubeconfig import connect

    connection = connect(source.kubeconfig, source.context)
    space = namespace or connection.namespace
    chosen = _KINDS.get(kind.lower())
    target, owner, refusal = ExplainTarget(chosen or kind, space, name), None, None
    if chosen is None:
        target, owner, refusal = _owner(source, kind, name, space)
    with working("reading the cluster"):
        evidence = asyncio.run(gather_evidence(connection, target, records, owner=owner, suggest=suggest))
    if refusal is not None and not evidence.records:
        raise refusal
    return evidence


def _owner(
    source: "InputSource", kind: str, name: str, namespace: str
) -> "tuple[ExplainTarget, OwnerEvidence, CommandError | None]":
    """Return what to explain for a controller of a live cluster, which is read whole only for kinds that make pods.

    A controller that has no pods or no longer exists is explained itself, because records may report the eviction of
    its pods. The third value is then the error for the case that there are no such records.
    """
    from kube_rules.errors import FieldError
    from reprieve.cli.evidence import ExplainTarget, OwnerEvidence
    from reprieve.cli.explain_files import NoPodsError, owned
    from reprieve.client.cluster_reader import manifests_of
    from reprieve.python.inputs import read_live
    from reprieve.simulation.workloads.named_workloads import NotThereError, makers_named, makes_pods_by_name

    if not makes_pods_by_name(kind, source.rows):
        refuse(f"{kind!r}: expected pod, podgroup or compositepodgroup")
    makers = makers_named(f"{namespace}/{kind}/{name}")
    reading, server = read_live(source.kubeconfig, source.context, source.strictness, warn, owners=True, makers=makers)
    try:
        return *owned(manifests_of(reading, server), kind, name, namespace, source.rows), None
    except NoPodsError as error:
        owner, refusal = error.owner, CommandError(error.message)
    except NotThereError as error:
        owner = OwnerEvidence(makers[0][0] if makers else kind, namespace, name, 0, 0, exists=False)
        text = error.message.replace(" is in the input", " is in the cluster", 1)
        refusal = CommandError(text, Exit.NOT_SO)
    except FieldError as error:
        refuse(error.message)
    return ExplainTarget(owner.kind, namespace, name), owner, refusal


def _namespace_of(source: "InputSource") -> str:
    from reprieve.client.kubeconfig import connect

    return connect(source.kubeconfig, source.context).namespace


def _explain_all(source: "InputSource", namespace: str | None, output: Format, *, redact: bool, suggest: bool) -> None:
    """Explain all pending workloads of manifests or of a live cluster."""
    from reprieve.cli.explain_files import all_waiting, waiting_document
    from reprieve.cli.options import read_options

    gathered = gather(source)
    only = None if redact else namespace  # with `redact` the namespace limits the names shown, not the pods explained
    with working("computing the answer"):
        answer, records = all_waiting(gathered, read_options(), source, only, suggest=suggest)
    shown, hidden = answer, None
    record_of: RecordOf = records.of
    if redact:
        from dataclasses import replace

        from reprieve.cli.redaction import redacted_waiting

        own = namespace or (_namespace_of(source) if source.live else "default")
        redacted = redacted_waiting(answer.plan, records.of, gathered.manifests, own)
        answer, shown = replace(answer, plan=redacted.plan), replace(answer, plan=redacted.own)
        record_of, hidden = redacted.record_of, redacted.others
    if namespace is not None:
        warn_of_namespace(gathered, namespace)
    for warning in answer.account.warnings:
        note(f"warning: {warning}")
    if output is not Format.TEXT:
        show(document(waiting_document(answer, gathered.changed.applied), output))
        return
    from reprieve.cli.render import waiting_sections
    from reprieve.cli.sections import Section, Tone

    sections = [*waiting_sections(shown, record_of), *([hidden] if hidden is not None else [])]
    show_with_changes(gathered, sections or [Section("No pods are pending.", tone=Tone.GOOD)])
