"""The Common Expression Language in Kubernetes' dialect: parsing, cost estimates, evaluation within a budget.

`parse` makes a tree of a text (`syntax`), `checked_type` checks the tree against the types of its variables
(`type_checker`, `overloads`), `estimated_cost` bounds the cost of its evaluation for values of a declared form
(`cost_estimate`, `declarations`), `compiled` makes a `Program` of the tree that counts its cost and stops at a limit
(`evaluator`, `library` and the modules of functions). Costs have the units of cel-go and of k8s.io/apiserver/pkg/cel,
so that this package refuses what an API server refuses. Nothing here backtracks, recurses with the length of a text, or
exceeds its budget.

Values: int, `Uint`, float, str, bytes, bool, None, list, dict, `datetime` and `timedelta`, the types themselves
(`TypeName`), and other values that a caller binds and its functions support.
"""

from kube_rules.cel.access_functions import AUTHORIZER, AccessQuestion, UserAccess
from kube_rules.cel.cost_estimate import estimated_cost
from kube_rules.cel.declarations import MAX_REQUEST, UNKNOWN, ValueForm, converted, declared
from kube_rules.cel.evaluator import Program, compiled
from kube_rules.cel.functions import Function
from kube_rules.cel.library import LIBRARY
from kube_rules.cel.quantity_functions import QuantityValue, Semver
from kube_rules.cel.syntax import MAX_DEPTH, CelSyntaxError, Node, identifiers, parse
from kube_rules.cel.type_checker import checked_type, form_of
from kube_rules.cel.values import (
    NONE,
    CelError,
    CostExceededError,
    FullMap,
    Message,
    Meter,
    Optional,
    TypeName,
    Uint,
    type_name,
)

__all__ = [
    "AUTHORIZER",
    "LIBRARY",
    "MAX_DEPTH",
    "MAX_REQUEST",
    "NONE",
    "UNKNOWN",
    "AccessQuestion",
    "CelError",
    "CelSyntaxError",
    "CostExceededError",
    "FullMap",
    "Function",
    "Message",
    "Meter",
    "Node",
    "Optional",
    "Program",
    "QuantityValue",
    "Semver",
    "TypeName",
    "Uint",
    "UserAccess",
    "ValueForm",
    "checked_type",
    "compiled",
    "converted",
    "declared",
    "estimated_cost",
    "form_of",
    "identifiers",
    "parse",
    "type_name",
]
