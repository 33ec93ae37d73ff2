"""Every function of expressions by its name: the environment of Kubernetes 1.36 (apiserver/pkg/cel/environment).

An API server reads new expressions as the version before it does (1.35), so that they are understood after a
rollback. That gives cel-spec's standard functions, ext.Strings (2), ext.Lists (3), ext.Sets, optionals, comprehensions
of two variables, and Kubernetes' own on URLs, addresses, networks, regular expressions, lists, quantities, formats
and semantic versions. Functions of an `authorizer` and of patches need a value or a switch that admission alone gives.
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_rules.cel.access_functions import ACCESS
from kube_rules.cel.collection_functions import COLLECTIONS
from kube_rules.cel.format_functions import FORMATTING
from kube_rules.cel.functions import STANDARD, Function
from kube_rules.cel.network_functions import NETWORK
from kube_rules.cel.quantity_functions import QUANTITY

LIBRARY: Mapping[str, Function] = {**STANDARD, **COLLECTIONS, **FORMATTING, **NETWORK, **QUANTITY, **ACCESS}
"""All functions; those with a dot in their name are called by that name (`sets.contains(a, b)`)."""
