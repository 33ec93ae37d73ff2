"""Which taint a toleration covers (core/v1 helpers, ToleratesTaint; KEP-5471)."""

from __future__ import annotations

import pytest

from kube_rules.taints import covers

TAINT = ("k", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("key", "operator", "value", "effect", "covered"),
    [
        ("k", "Equal", "5", "NoSchedule", True),
        ("k", "", "5", "", True),  # no operator is Equal, no effect is every effect
        ("k", "Equal", "6", "", False),
        ("k", "Equal", "5", "NoExecute", False),
        ("x", "Equal", "5", "", False),
        ("", "Equal", "5", "", False),  # without a key only Exists says something
        ("", "", "5", "", False),
        ("", "Lt", "9", "", False),
        ("", "Exists", "", "", True),
        ("", "Exists", "", "NoExecute", False),
        ("k", "Exists", "", "", True),
        ("x", "Exists", "", "", False),
        ("k", "Lt", "6", "", True),
        ("k", "Lt", "5", "", False),
        ("k", "Lt", "4", "", False),
        ("k", "Gt", "4", "", True),
        ("k", "Gt", "5", "", False),
        ("k", "Gt", "6", "", False),
        ("k", "Lt", "x", "", False),
        ("k", "Gt", "", "", False),
        ("k", "Weird", "4", "", False),
        ("k", "Weird", "6", "", False),
    ],
)
def test_tolerations(key: str, operator: str, value: str, effect: str, covered: bool) -> None:
    assert covers(key, operator, value, effect, TAINT) is covered


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_taint_that_is_no_number_is_not_compared(operator: str) -> None:
    assert not covers("k", operator, "0", "", ("k", "x", "NoSchedule"))
    assert not covers("k", operator, "0", "", ("k", "", "NoSchedule"))
