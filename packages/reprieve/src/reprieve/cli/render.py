"""The answer of `plan` as text: placements, preemptions with victims and reasons, spared workloads, pending pods.

Invariant: nothing here depends on the wall clock; the same answer gives the same text.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from kube_rules.errors import names_text
from reprieve.cli.preemption_text import first_rows, natural, planned_sections
from reprieve.cli.sections import Row, Section, Tone
from reprieve.cli.units import MOST_NAMES, MOST_NODES, nodes_text
from reprieve.cluster.resources import insufficient
from reprieve.decisions.outcomes import NONE, SOME, DeferredPreemption, Help
from reprieve.decisions.phrases import count, domains_text, seconds_text
from reprieve.decisions.records import DecisionRecord
from reprieve.decisions.wording import order_sentence, tried_together, without_success
from reprieve.preemption.outcome import GROUP_UNSCHEDULABLE, DeferralReason
from reprieve.simulation.report import (
    Account,
    Answer,
    ChangeMade,
    DisplacedPod,
    EvictedPod,
    LostPod,
    Plan,
    PlannedPreemption,
    PodGroupOutcome,
    PodOutcome,
)
from reprieve.simulation.report_refusals import REFUSED, refusal_sentences

MOST_REASONS = 6
NOT_TRIED = "not tried yet"
"""Outcome of a pod without an attempt when the plan stops at the first decision."""

Group = tuple[str, str]
"""(namespace, name)."""


RecordOf = Callable[[str, str, str], DecisionRecord | None]
"""(kind, namespace, name) -> the last record of a pending workload."""


def _no_record(_kind: str, _namespace: str, _name: str) -> DecisionRecord | None:
    return None


def plan_sections(answer: Answer, record_of: RecordOf = _no_record) -> list[Section]:
    """Return the whole answer, most important first. With records, pending workloads have the reasons of `explain`."""
    plan, account = answer.plan, answer.account
    groups = {(g.namespace, g.name): g for g in plan.pod_groups}
    members = _members(plan.asked_pods)
    sections = [
        changes_section(plan.changes),
        _verdict(plan, account),
        _displaced(plan),
        _broken_gangs(plan),
        _placed(plan, groups, members),
        *(section for preemption in account.preemptions for section in planned_sections(preemption)),
        resizes_section(plan),
        _deferred(plan),
        _reserved(plan),
        _released(plan),
        _lost(plan, groups),
        _below_minimum(plan),
        _trees(plan),
        _refused(plan),
        _waiting(plan, groups, members, record_of),
        _closing(plan, account),
    ]
    return [section for section in sections if section is not None]


def waiting_sections(answer: Answer, record_of: RecordOf = _no_record) -> list[Section]:
    """Return pending workloads with reasons and suggestions: trees of groups, then groups and pods; may be empty."""
    plan = answer.plan
    groups = {(g.namespace, g.name): g for g in plan.pod_groups}
    parts = (_trees(plan), _refused(plan), _waiting(plan, groups, _members(plan.asked_pods), record_of))
    return [section for section in parts if section is not None]


# -- at a glance -------------------------------------------------------------------------------------------------------


def _verdict(plan: Plan, account: Account) -> Section:
    outcomes = Counter(pod.outcome for pod in plan.asked_pods)
    placed, requested = outcomes["Scheduled"], len(plan.asked_pods)
    if not requested:
        title, tone = "No pods are pending.", Tone.PLAIN
    elif placed == requested:
        title, tone = f"{'The pod is' if requested == 1 else f'All {requested} pods are'} placed.", Tone.GOOD
    else:
        refused, waiting = outcomes["Refused"], requested - placed - outcomes["Refused"]
        parts = [f"{refused} refused"] if refused else []
        if outcomes["Nominated"]:
            parts.append(f"{outcomes['Nominated']} waiting for victims to terminate")
        elif waiting:
            parts.append(f"{waiting} pending")
        title, tone = f"{placed} of {requested} pods placed, {', '.join(parts)}.", Tone.WAITING
    beside = {f"pod {item.namespace}/{item.name}" for item in plan.pods if not item.asked}
    beside |= {f"podgroup {item.namespace}/{item.name}" for item in plan.pod_groups if not item.asked}
    evicted = _evicted_units(item for item in account.preemptions if str(item.outcome.preemptor) not in beside)
    notes = [f"{evicted} evicted to free capacity." if evicted else "No pods are evicted."]
    if plan.lost:
        nodes = sorted({pod.node_name for pod in plan.lost})
        notes.append(f"{count(len(plan.lost), 'pod')} lost with {nodes_text(nodes)}.")
    below = sum(group.below_minimum for group in plan.pod_groups)
    if below:
        notes.append(f"{count(below, 'gang')} fell below {'its' if below == 1 else 'their'} minimum.")
    notes += _beside(
        plan, _evicted_units(item for item in account.preemptions if str(item.outcome.preemptor) in beside)
    )
    notes.append(
        f"Cluster: {count(account.nodes, 'node')}, {count(account.running_before, 'running pod')} before, "
        f"{account.running_after} after."
    )
    return Section(title, notes=tuple(notes), tone=tone)


def _evicted_units(decisions: Iterable[PlannedPreemption]) -> str:
    """`2 workloads (5 pods)`; empty for none.

    A unit that was already terminating when a more important preemptor took its capacity counts once.
    """
    units = [unit for item in decisions for unit in item.record.evicted if unit.unit not in item.evicted_before]
    return f"{count(len(units), 'workload')} ({count(sum(unit.pods for unit in units), 'pod')})" if units else ""


def _beside(plan: Plan, evicted: str) -> list[str]:
    """Return the outcome of pending pods of the cluster that are not part of the question (whatif.md 13)."""
    unasked = [pod for pod in plan.pods if not pod.asked]
    if not unasked:
        return []
    placed = sum(pod.outcome == "Scheduled" for pod in unasked)
    parts = [f"{placed} placed"] if placed else []
    parts += [f"{len(unasked) - placed} still pending"] if len(unasked) > placed else []
    parts += [f"{evicted} evicted for them"] if evicted else []
    return [f"Outside this plan: {count(len(unasked), 'pod')} already pending in the cluster, {', '.join(parts)}."]


# -- changes -----------------------------------------------------------------------------------------------------------


def changes_section(changes: Sequence[ChangeMade]) -> Section | None:
    """Return the changes that were made before the first decision, in order."""
    rows = tuple(Row((applied.change, applied.sentence)) for applied in changes)
    needs = ((applied.change, kubectl_needs(applied.kubectl_needs)) for applied in changes)
    notes = tuple(f"{change}: {needed}" for change, needed in needs if needed)
    return Section("Changes", ("", ""), rows, notes) if rows else None


def kubectl_needs(flags: Sequence[str]) -> str:
    """Return the flags that `kubectl drain` needs; empty if no pods and no data are lost permanently."""
    return f"kubectl drain needs {' '.join(flags)}" if set(flags) - {"--ignore-daemonsets"} else ""


def _displaced(plan: Plan) -> Section | None:
    """Return the new nodes of pods that a change removed from theirs: pending pods first, then lost ones."""
    rows = list(displaced_rows(plan.displaced))
    return Section("Displaced", ("", "", "", ""), *first_rows(rows)) if rows else None


_FATES = {"Waiting": Tone.WAITING, "Lost": Tone.BAD, "Moved": Tone.PLAIN}
"""Outcomes of a displaced pod, in the order of the rows."""


def displaced_rows(displaced: Iterable[DisplacedPod], *, why: bool = False) -> tuple[Row, ...]:
    """Return a row for each displaced pod; `why`: with the reason why it is pending."""
    order = list(_FATES)
    rows = []
    for pod in sorted(displaced, key=lambda pod: (order.index(pod.outcome), pod.namespace, natural(pod.name))):
        costs = [budgets_text("violates", pod.budgets)] if pod.budgets else []
        costs += [f"loses emptyDir {', '.join(pod.empty_dirs)}"] if pod.empty_dirs else []
        below = (pod.message,) if why and pod.message else ()
        cells = (f"pod {pod.namespace}/{pod.name}", f"from {pod.node_name}", _fate(pod), "; ".join(costs))
        rows.append(Row(cells, below, tone=_FATES[pod.outcome]))
    return tuple(rows)


def budgets_text(verb: str, budgets: Sequence[str]) -> str:
    """Return `violates budget a/b`, `violates budgets a/b, a/c`."""
    return f"{verb} budget{'s' if len(budgets) > 1 else ''} {', '.join(budgets)}"


def _fate(pod: DisplacedPod | EvictedPod) -> str:
    """`to n2 as web-00000`, `pending`, `lost: no controller recreates it`."""
    moved = f"back to {pod.to}" if pod.to == pod.node_name else f"to {pod.to}"
    to = {"Moved": moved, "Waiting": "pending", "Lost": "lost: no controller recreates it"}[pod.outcome]
    return f"{to} as {pod.successor}" if pod.successor not in (None, pod.name) else to


def evicted_rows(evicted: Iterable[EvictedPod]) -> tuple[Row, ...]:
    """Return a row for each pod that is preempted for a displaced one, in the order of the decisions."""
    rows = []
    for item in evicted:
        preemptor = item.preemptor
        below = [f"preempted for {preemptor} (priority {preemptor.priority})"]
        if item.why is not None:
            below.append(f"why: {item.why.clause}")
        below += [item.message] if item.message else []
        against = budgets_text("violates", item.budgets) if item.budgets else ""
        cells = (f"pod {item.namespace}/{item.name}", f"from {item.node_name}", _fate(item), against)
        rows.append(Row(cells, tuple(below), tone=_FATES[item.outcome]))
    return tuple(rows)


_RESIZES = {
    "Deferred": ("deferred", Tone.WAITING),
    "Preempting": ("waits for victims to terminate", Tone.WAITING),
    "Evicted": ("evicted", Tone.BAD),
    "Resized": ("resized", Tone.GOOD),
}
"""Outcomes of deferred resizes, in the order of the rows."""


def resizes_section(plan: Plan) -> Section | None:
    """Return running pods with a deferred resize in place, and what is evicted for them (resizes.md 5)."""
    order = list(_RESIZES)
    rows = []
    for item in sorted(plan.resizes, key=lambda item: (order.index(item.outcome), item.namespace, natural(item.name))):
        text, tone = _RESIZES[item.outcome]
        evicts = f"evicts {', '.join(item.evicts)}" if item.evicts else ""
        below = (item.message,) if item.message and item.outcome == "Deferred" else ()
        cells = (f"pod {item.namespace}/{item.name}", f"on {item.node_name}", text, evicts)
        rows.append(Row(cells, below, tone=tone))
    return Section("Resizes in place", ("", "", "", ""), *first_rows(rows)) if rows else None


def _broken_gangs(plan: Plan) -> Section | None:
    """Return gangs that fell below their minimum by the changes."""
    rows = []
    for broken_gang in plan.broken_gangs:
        left = f"{broken_gang.left} of {broken_gang.before} left, minCount {broken_gang.min_count}"
        rows.append(
            Row((f"gang {broken_gang.namespace}/{broken_gang.name}", left, f"{broken_gang.after} placed at the end"))
        )
    return Section("Gangs broken by the changes", ("", "", ""), *first_rows(rows), tone=Tone.BAD) if rows else None


# -- placed ------------------------------------------------------------------------------------------------------------


def _placed(plan: Plan, groups: dict[Group, PodGroupOutcome], members: dict[Group, list[PodOutcome]]) -> Section | None:
    rows = []
    for key, pods in members.items():
        placed = [pod for pod in pods if pod.node_name]
        if placed:
            waiting = len(placed) < len(pods)
            cells = (_called(key, groups), f"{len(placed)}/{len(pods)} pods placed", _spread(placed))
            rows.append(Row(cells, tone=Tone.WAITING if waiting else Tone.PLAIN))
            if (group := groups.get(key)) is not None and group.topology:
                uses = (domains_text(use.level, use.domains, use.breaks) for use in group.topology)
                rows.append(Row(("", "", "; ".join(uses))))
    singles = [pod for pod in plan.asked_pods if pod.pod_group is None and pod.node_name]
    rows += [Row((f"pod {pod.namespace}/{pod.name}", "placed", f"on {pod.node_name}")) for pod in singles]
    if not rows:
        return None
    return Section("Placed", ("", "", ""), *first_rows(rows), tone=Tone.GOOD)


def _spread(pods: Iterable[PodOutcome]) -> str:
    """`4 on n1, 4 on n2`; fullest nodes first, ties by name."""
    per_node = Counter(pod.node_name or "" for pod in pods)
    ordered = sorted(per_node.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{number} on {node}" for node, number in ordered[:MOST_NODES])
    rest = ordered[MOST_NODES:]
    return f"{shown}, {sum(n for _, n in rest)} on {count(len(rest), 'more node')}" if rest else shown


# -- waited ------------------------------------------------------------------------------------------------------------


def _deferred(plan: Plan) -> Section | None:
    """Return the deferred preemptions: the reason of each, since when and until when at the latest."""
    if not plan.put_off:
        return None
    rows = [
        Row(
            (
                str(item.preemptor),
                _reason_to_wait(item),
                seconds_text(item.at),
                seconds_text(item.until) if item.until is not None else "",
            )
        )
        for item in plan.put_off
    ]
    shown, notes = first_rows(rows)
    columns = ("preemptor", "waits for", "from", "until at the latest")
    return Section("Deferred preemptions", columns, shown, notes, tone=Tone.WAITING)


def _reason_to_wait(deferral: DeferredPreemption) -> str:
    if deferral.reason == DeferralReason.DELAY.value:
        return "its preemption-delay"
    if deferral.reason == DeferralReason.MINIMUM_RUNTIME.value:
        return "workloads within their minimum-runtime"
    if deferral.reason == DeferralReason.EVICTION_LIMIT.value:
        return "workloads that eviction limits protect"
    verbs = {DeferralReason.COMPLETIONS.value: "to end", DeferralReason.CHECKPOINT.value: "to save a checkpoint"}
    verb = verbs.get(deferral.reason, "of the same owner to terminate")
    return f"{names_text(deferral.pods, MOST_NAMES)} {verb}"


def _reserved(plan: Plan) -> Section | None:
    """Return capacity that is reserved for long-pending workloads."""
    if not plan.reservations:
        return None
    rows = [Row((str(item.holder), nodes_text(item.nodes), item.message, item.backfill)) for item in plan.reservations]
    shown, notes = first_rows(rows)
    return Section("Capacity reserved", ("for", "on", "start", "backfill"), shown, notes, tone=Tone.WAITING)


def _released(plan: Plan) -> Section | None:
    """Return capacity that was reserved for a preemptor and released unused."""
    if not plan.released:
        return None
    rows = [
        Row((str(item.preemptor), nodes_text(item.nodes), seconds_text(item.at), item.message))
        for item in plan.released
    ]
    shown, notes = first_rows(rows)
    return Section(
        "Reserved capacity released unused", ("reserved for", "on", "at", "why"), shown, notes, tone=Tone.WAITING
    )


# -- lost --------------------------------------------------------------------------------------------------------------


def _lost(plan: Plan, groups: dict[Group, PodGroupOutcome]) -> Section | None:
    """Return pods lost with their node, by group; single pods of a node together."""
    together: dict[tuple[Group | None, str], list[LostPod]] = defaultdict(list)
    for pod in plan.lost:
        group = (pod.namespace, pod.pod_group) if pod.pod_group is not None else None
        together[group, pod.node_name].append(pod)
    rows = []
    for (group, node), pods in together.items():
        if group is not None:
            name = _called(group, groups)
        else:
            space = f"{pods[0].namespace}/"
            names = [f"{pod.namespace}/{pod.name}" for pod in pods[:MOST_NAMES]]
            shorter = [names[0], *(name.removeprefix(space) for name in names[1:])]
            name = f"pod{'s' if len(pods) > 1 else ''} {names_text(shorter, MOST_NAMES, len(pods))}"
        rows.append(Row((name, count(len(pods), "pod"), f"with {node}")))
    if not rows:
        return None
    return Section("Lost with their node", ("", "", ""), *first_rows(rows), tone=Tone.BAD)


def _below_minimum(plan: Plan) -> Section | None:
    rows = []
    for group in plan.pod_groups:
        if group.below_minimum:
            why = [f"{number} {how}" for number, how in ((group.evicted, "evicted"), (group.lost, "lost")) if number]
            left = f"{group.scheduled} of minCount {group.min_count} left"
            rows.append(Row((f"gang {group.namespace}/{group.name}", left, ", ".join(why))))
    if not rows:
        return None
    return Section("Below their minimum", ("", "", ""), *first_rows(rows), tone=Tone.BAD)


# -- trees of groups ---------------------------------------------------------------------------------------------------


def _trees(plan: Plan) -> Section | None:
    """Return the composites that are not scheduled, parents first: how many children fit, and which were short."""
    rows = []
    for composite_pod_group in sorted(
        plan.composite_pod_groups, key=lambda tree: (tree.namespace, tree.parent is not None, tree.name)
    ):
        if composite_pod_group.outcome == "Scheduled":
            continue
        needed = composite_pod_group.min_group_count or 1
        progress = (
            f"{composite_pod_group.succeeded} of {count(needed, 'group')} needed"
            if composite_pod_group.succeeded is not None
            else ""
        )
        short = (
            [f"below the minimum: {', '.join(composite_pod_group.short[:MOST_REASONS])}"]
            if composite_pod_group.short
            else []
        )
        if len(composite_pod_group.short) > MOST_REASONS:
            short[0] += f" and {len(composite_pod_group.short) - MOST_REASONS} more"
        below = tuple(text for text in (composite_pod_group.message, *short) if text)
        cells = (
            f"compositepodgroup {composite_pod_group.namespace}/{composite_pod_group.name}",
            progress,
            composite_pod_group.outcome,
        )
        rows.append(Row(cells, below=below, tone=Tone.WAITING))
    if not rows:
        return None
    return Section("Pending trees of groups", ("", "", ""), *first_rows(rows), tone=Tone.WAITING)


# -- refused -----------------------------------------------------------------------------------------------------------


def _refused(plan: Plan) -> Section | None:
    """Return pods that admission refuses: by controller, then those without one."""
    return refused_section(refusal_sentences(plan))


def refused_section(sentences: Sequence[str]) -> Section | None:
    """Return sentences about what admission refuses."""
    rows = [Row((sentence,), tone=Tone.BAD) for sentence in sentences]
    return Section("Refused by admission", ("",), *first_rows(rows), tone=Tone.BAD) if rows else None


# -- waiting -----------------------------------------------------------------------------------------------------------


def _waiting(
    plan: Plan,
    groups: dict[Group, PodGroupOutcome],
    members: dict[Group, list[PodOutcome]],
    record_of: RecordOf,
) -> Section | None:
    rows = []
    for key, pods in members.items():
        left = [pod for pod in pods if pod.node_name is None and pod.outcome != REFUSED]
        if left:
            group = groups.get(key)
            messages = _group_messages(left, group, record_of("PodGroup", *key))
            cells = (_called(key, groups), f"{len(left)} of {len(pods)} pods", _outcomes(left))
            rows.append(Row(cells, below=messages, tone=Tone.WAITING))
    alike: dict[tuple[str, str | None, tuple[str, ...]], list[PodOutcome]] = defaultdict(list)
    for pod in plan.asked_pods:
        if pod.pod_group is None and pod.node_name is None and pod.outcome != REFUSED:
            alike[pod.outcome, pod.message, _helps(pod)].append(pod)
    for (outcome, message, helps), pods in alike.items():
        first = f"pod {pods[0].namespace}/{pods[0].name}"
        name = first if len(pods) == 1 else f"{first} and {len(pods) - 1} more"
        cells = (name, count(len(pods), "pod"), _with_node(pods[0]) if len(pods) == 1 else outcome)
        rows.append(Row(cells, below=(message or NOT_TRIED, *helps), tone=Tone.WAITING))
    if not rows:
        return None
    return Section("Pending", ("", "", ""), *first_rows(rows), tone=Tone.WAITING)


_WAITS_FOR_OTHERS = "waiting for minCount pods from a gang to be scheduled"
_ONLY_PLACEMENT = "0/1 placements are available, first placement status: "
"""A message that means only that all nodes were tried."""


def _group_messages(
    pods: Sequence[PodOutcome], group: PodGroupOutcome | None, record: DecisionRecord | None
) -> tuple[str, ...]:
    """Return why a group is pending: the result of its last attempt, why it did not preempt, what would help.

    Messages that state only the failure are left out.
    """
    messages = _messages(pods, group.message if group is not None else None)
    if record is None or record.members is None or group is None or group.outcome != "Unschedulable":
        return messages
    attempt = tried_together(record.members)
    if record.reasons:
        scarcest = list(record.lack.closest.missing) if record.lack is not None and record.lack.closest else []
        order = {insufficient(resource): place for place, resource in enumerate(scarcest)}
        reasons = sorted(record.reasons, key=lambda reason: order.get(reason.reason, len(order)))
        counts = ", ".join(f"{reason.nodes} {reason.reason}" for reason in reasons[:MOST_REASONS])
        more = f" and {len(reasons) - MOST_REASONS} more reasons" if len(reasons) > MOST_REASONS else ""
        rest = "The others" if record.members.placed else "They"
        attempt += f" {rest} fit on 0 of {count(record.nodes, 'node')}: {counts}{more}."
    why = without_success(record.in_vain, record.entity.priority) if record.in_vain is not None else []
    if record.order is not None:
        why.append(order_sentence(record.order))
    texts = [text.removeprefix(_ONLY_PLACEMENT).removeprefix(f"{GROUP_UNSCHEDULABLE}, ") for text in messages]
    texts = [text for text in texts if text not in (GROUP_UNSCHEDULABLE, "") and not text.startswith(_WAITS_FOR_OTHERS)]
    if record.reasons:
        texts = [text for text in texts if not text.startswith(f"0/{record.nodes} nodes are available: ")]
    return (attempt, *why, *dict.fromkeys(texts), *_helps(group))


def _helps(waiting: PodOutcome | PodGroupOutcome) -> tuple[str, ...]:
    return help_lines(waiting.help, waiting.tried)


def help_lines(helps: Iterable[Help], tried: str | None) -> tuple[str, ...]:
    """Return a line for each suggestion, and a line if not everything was tried (whatif.md 5.7)."""
    stopped = {SOME: "not all changes that may help were tried", NONE: "changes that may help were not tried"}.get(
        tried or ""
    )
    return (*(f"would help: {item.sentence}" for item in helps), *([f"({stopped})"] if stopped else []))


def _messages(pods: Iterable[PodOutcome], group: str | None, most: int = 3) -> tuple[str, ...]:
    """Return the group's message and the most frequent ones of its members; omit those that others contain."""
    frequent = Counter(pod.message for pod in pods if pod.message).most_common(most)
    messages = dict.fromkeys([*([group] if group else []), *(text for text, _ in frequent)])
    result = tuple(m for m in messages if not any(m != message and m in message for message in messages))
    return result or (NOT_TRIED,)


def _outcomes(pods: Sequence[PodOutcome]) -> str:
    outcomes = Counter(pod.outcome for pod in pods)
    text = ", ".join(f"{number} {outcome}" if len(outcomes) > 1 else outcome for outcome, number in outcomes.items())
    nominated = Counter(pod.nominated_node_name for pod in pods if pod.nominated_node_name)
    if not nominated:
        return text
    reserved = " (reserved)" if set(outcomes) == {"Unschedulable"} else ""
    return f"{text}: {nodes_text(sorted(node for node in nominated if node))}{reserved}"


def _with_node(pod: PodOutcome) -> str:
    return f"{pod.outcome}: {pod.nominated_node_name}" if pod.nominated_node_name else pod.outcome


# -- the rest ----------------------------------------------------------------------------------------------------------


def _closing(plan: Plan, account: Account) -> Section:
    took = seconds_text(plan.stats.virtual_seconds)
    title = f"Simulated time: {took}, {count(plan.stats.attempts, 'scheduling attempt')}."
    still = len(account.terminating)
    notes = (f"{count(still, 'victim')} still terminating.",) if still else ()
    return Section(title, notes=notes, tone=Tone.QUIET)


def _members(pods: Iterable[PodOutcome]) -> dict[Group, list[PodOutcome]]:
    members: dict[Group, list[PodOutcome]] = defaultdict(list)
    for pod in pods:
        if pod.pod_group is not None:
            members[pod.namespace, pod.pod_group].append(pod)
    return members


def _called(key: Group, groups: dict[Group, PodGroupOutcome]) -> str:
    group = groups.get(key)
    kind = "gang" if group is not None and group.min_count is not None else "group"
    return f"{kind} {key[0]}/{key[1]}"
