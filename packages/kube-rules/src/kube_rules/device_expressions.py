"""CEL expressions that select devices: what they may contain and cost (k8s.io/dynamic-resource-allocation/cel).

A selector of a ResourceClaim, a ResourceClaimTemplate or a DeviceClass is held to this when it is written and again
when it is used. `device` has a driver, attributes and capacities by domain and name; attributes are bool, int, string
or semver, or lists of them (KEP-5491), and known by type only when the expression runs; capacities are quantities. The
result is a bool, or not known before.
"""

from __future__ import annotations

from kube_rules import cel

LONGEST = 10 * 1024
"""Bytes of an expression (resourceapi.CELSelectorExpressionMaxLength)."""
MAX_COST = 1_000_000
"""Cost of an expression, estimated and when it runs (resourceapi.CELSelectorExpressionMaxCost)."""
_MOST_ENTRIES = 32
"""Attributes and capacities of one device together."""
_LONGEST_VALUE = 64
"""Bytes of a string or version (resourceapi.DeviceAttributeMaxValueLength)."""
_LONGEST_DRIVER = 63

_ATTRIBUTES = cel.Declared("map", _MOST_ENTRIES, inner=cel.Declared("dyn", _LONGEST_VALUE))
_CAPACITIES = cel.Declared("map", _MOST_ENTRIES, inner=cel.Declared("kubernetes.Quantity"))
_DEVICE = cel.Declared(
    "object",
    fields={
        "driver": cel.Declared("string", _LONGEST_DRIVER),
        "allowMultipleAllocations": cel.Declared("bool"),
        "attributes": cel.Declared("map", _MOST_ENTRIES, inner=_ATTRIBUTES),
        "capacity": cel.Declared("map", _MOST_ENTRIES, inner=_CAPACITIES),
    },
)


class DeviceExpressionError(ValueError):
    """An expression that selects no device: `str()` is the reason in upstream's words."""


class TooComplexError(DeviceExpressionError):
    """An expression that compiles and may cost too much."""


def parsed(expression: str) -> cel.Node:
    """Return the tree of an expression. Raises DeviceExpressionError: it does not compile, gives no bool, costs too
    much.
    """
    variables = {"device": _DEVICE}
    try:
        tree = cel.parse(expression)
        result = cel.checked_type(tree, variables, bindings=True, devices=True)
    except cel.CelSyntaxError as error:
        raise DeviceExpressionError(f"compilation failed: {error}") from None
    if result.name not in ("bool", "dyn"):
        raise DeviceExpressionError(f"must evaluate to bool or the unknown type, not {result}")
    if cel.estimated_cost(tree, variables) > MAX_COST:
        raise TooComplexError("too complex, exceeds cost limit")
    return tree
