"""CEL expressions that select devices: their limits and costs (k8s.io/dynamic-resource-allocation/cel).

A selector of a ResourceClaim, a ResourceClaimTemplate or a DeviceClass is checked when it is written and again when it
is used. `device` has a driver, and attributes and capacities by domain and name. Attributes are bool, int, string or
semver, or lists of them (KEP-5491); their types are known only at evaluation. Capacities are quantities. The result is
a bool or of unknown type.
"""

from __future__ import annotations

from kube_rules import cel

LONGEST = 10 * 1024
"""Maximum length of an expression in bytes (resourceapi.CELSelectorExpressionMaxLength)."""
MAX_COST = 1_000_000
"""Maximum estimated and actual cost of an expression (resourceapi.CELSelectorExpressionMaxCost)."""
_MOST_ENTRIES = 32
"""Maximum number of attributes and capacities of one device together."""
_LONGEST_VALUE = 64
"""Maximum length of a string or version in bytes (resourceapi.DeviceAttributeMaxValueLength)."""
_LONGEST_DRIVER = 63

_ATTRIBUTES = cel.ValueForm("map", _MOST_ENTRIES, inner=cel.ValueForm("dyn", _LONGEST_VALUE))
_CAPACITIES = cel.ValueForm("map", _MOST_ENTRIES, inner=cel.ValueForm("kubernetes.Quantity"))
_DEVICE = cel.ValueForm(
    "object",
    fields={
        "driver": cel.ValueForm("string", _LONGEST_DRIVER),
        "allowMultipleAllocations": cel.ValueForm("bool"),
        "attributes": cel.ValueForm("map", _MOST_ENTRIES, inner=_ATTRIBUTES),
        "capacity": cel.ValueForm("map", _MOST_ENTRIES, inner=_CAPACITIES),
    },
)


class DeviceExpressionError(ValueError):
    """An expression that cannot select devices: `str()` is the reason in upstream's words."""


class TooComplexError(DeviceExpressionError):
    """A valid expression with too high a cost."""


def parsed(expression: str) -> cel.Node:
    """Return the tree of an expression.

    Raises DeviceExpressionError for an expression that does not compile, does not return a bool, or costs too much.
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
