"""Changes as flags (whatif.md 4): what can be given, in the order in which it was given."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reprieve.cli.outcome import refuse

if TYPE_CHECKING:
    from reprieve.questions.changes import Change

ORDER = "reprieve.order"
"""Key of the context's `meta`: names of the parameters that were given, once for each time, in order."""

_NODES = "NODE|SELECTOR"


def _flag(name: str, metavar: str, meaning: str) -> Any:
    return typer.Option(
        name, metavar=metavar, help=f"{meaning} Repeatable.", rich_help_panel="Changes, in the order given"
    )


CordonOption = Annotated[list[str] | None, _flag("--cordon", _NODES, "No new pods on these nodes.")]
UncordonOption = Annotated[list[str] | None, _flag("--uncordon", _NODES, "Pods may go to these nodes again.")]
DrainOption = Annotated[list[str] | None, _flag("--drain", _NODES, "Cordon and evict, as kubectl drain does.")]
RemoveNodeOption = Annotated[list[str] | None, _flag("--remove-node", _NODES, "Take nodes away with their pods.")]
FailOption = Annotated[list[str] | None, _flag("--fail", _NODES, "Let nodes fail: their pods are lost to them.")]
TaintOption = Annotated[
    list[str] | None, _flag("--taint", '"NODE|SELECTOR KEY=VALUE:EFFECT"', "Taint nodes; KEY- takes one off.")
]
LabelOption = Annotated[
    list[str] | None, _flag("--label", '"NODE|SELECTOR KEY=VALUE"', "Label nodes; KEY- takes one off.")
]
AddNodesOption = Annotated[list[str] | None, _flag("--add-nodes", "N", "So many more nodes, of the shape of --like.")]
LikeOption = Annotated[list[str] | None, _flag("--like", "NODE", "What the nodes of --add-nodes are like.")]
ScaleOption = Annotated[list[str] | None, _flag("--scale", "KIND/NAME=N", "Another count; of a podgroup its minCount.")]
SetPriorityOption = Annotated[
    list[str] | None, _flag("--set-priority", "KIND/NAME=CLASS|N", "Another priority for everything of a workload.")
]
WithoutOption = Annotated[
    list[str] | None, _flag("--without", "KIND/NAME", "As if this, and what it owns, had never been there.")
]

_FLAGS = {
    "cordon": "cordon",
    "uncordon": "uncordon",
    "drain": "drain",
    "remove_node": "remove-node",
    "fail_node": "fail",
    "taint": "taint",
    "label": "label",
    "add_nodes": "add-nodes",
    "like": "like",
    "scale": "scale",
    "set_priority": "set-priority",
    "without": "without",
}


def read_changes(context: typer.Context, values: Mapping[str, Sequence[str] | None]) -> "list[Change]":
    """The changes in the order given. `values`: by parameter, as the command got them."""
    if not any(values.get(name) for name in _FLAGS):
        return []
    from dataclasses import replace

    from reprieve.questions.changes import Change

    left = {name: list(values.get(name) or ()) for name in _FLAGS}
    found: list[Change] = []
    for name in context.meta.get(ORDER, ()):
        if not left.get(name):
            continue
        value = left[name].pop(0)
        if name != "like":
            found.append(Change(_FLAGS[name], value))
        elif found and found[-1].flag == "add-nodes" and not found[-1].like:
            found[-1] = replace(found[-1], like=value)
        else:
            refuse(f"--like {value}: it belongs right behind an --add-nodes N")
    bare = next((change for change in found if change.flag == "add-nodes" and not change.like), None)
    if bare is not None:
        refuse(f"{bare}: --like NODE behind it says what the new nodes are like")
    return found
