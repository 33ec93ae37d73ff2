"""All functions by name: the environment of Kubernetes 1.36 (apiserver/pkg/cel/environment).

An API server checks new expressions with the environment of the previous version (1.35), so that they still work after
a rollback. This environment has cel-spec's standard functions, ext.Strings (2), ext.Lists (3), ext.Sets, optionals,
comprehensions of two variables, and Kubernetes' functions of URLs, addresses, networks, regular expressions, lists,
quantities, formats and semantic versions. Functions of an `authorizer` and of patches need a value or a switch that
only admission provides.
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
"""All functions; a name with a dot is called as a whole (`sets.contains(a, b)`)."""
