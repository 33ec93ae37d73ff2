"""Impersonation: the user that the headers name, and the right that each of them takes (kube-apiserver 1.36)."""

from __future__ import annotations

import pytest

from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.impersonation import impersonated
from kube_standin.rights import Attributes

JANE = User("jane", ("system:authenticated",))


class Asked:
    """Stands in for an authoriser: allows all, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.attributes: list[Attributes] = []

    def check(self, user: User, asked: Attributes) -> None:
        assert user is JANE
        self.attributes.append(asked)


def act(*headers: tuple[str, str]) -> tuple[User, list[Attributes]]:
    asked = Asked()
    sent = [(b"accept", b"*/*"), *((f"impersonate-{name}".encode(), value.encode()) for name, value in headers)]
    return impersonated(JANE, sent, asked), asked.attributes  # type: ignore[arg-type]


KNOWN, UNKNOWN = "system:authenticated", "system:unauthenticated"
OF_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:s")


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([], JANE),
        ([("user", "")], JANE),
        ([("user", "joe")], User("joe", (KNOWN,))),
        ([("user", "joe"), ("user", "bob")], User("joe", (KNOWN,))),
        ([("user", ""), ("user", "bob")], User("bob", (KNOWN,))),
        ([("user", "joe"), ("group", "b"), ("group", "a")], User("joe", ("b", "a", KNOWN))),
        ([("user", "joe"), ("group", KNOWN)], User("joe", (KNOWN,))),
        ([("user", "joe"), ("group", UNKNOWN)], User("joe", (UNKNOWN,))),
        ([("user", "system:anonymous")], User("system:anonymous", (UNKNOWN,))),
        ([("user", "system:anonymous"), ("group", UNKNOWN)], User("system:anonymous", (UNKNOWN,))),
        ([("user", "system:anonymous"), ("group", "g")], User("system:anonymous", ("g", UNKNOWN))),
        ([("user", "joe"), ("uid", "7"), ("uid", "8")], User("joe", (KNOWN,), "7")),
        ([("user", "joe"), ("uid", ""), ("uid", "8")], User("joe", (KNOWN,), "8")),
        ([("user", "joe"), ("extra-b", "2"), ("extra-a%2fc", "3"), ("extra-b", "1")],
         User("joe", (KNOWN,), "", (("a/c", ("3",)), ("b", ("1", "2"))))),
        ([("user", "system:serviceaccount:s:r")], User("system:serviceaccount:s:r", (*OF_ACCOUNTS, KNOWN))),
        ([("user", "system:serviceaccount:s:r"), ("group", "g")], User("system:serviceaccount:s:r", ("g", KNOWN))),
        ([("user", "system:serviceaccount:s")], User("system:serviceaccount:s", (KNOWN,))),
        ([("user", "system:serviceaccount::r")], User("system:serviceaccount::r", (KNOWN,))),
        ([("user", "system:serviceaccount:s:")], User("system:serviceaccount:s:", (KNOWN,))),
        ([("user", "system:serviceaccount:s:r:t")], User("system:serviceaccount:s:r:t", (KNOWN,))),
        ([("user", "s:r")], User("s:r", (KNOWN,))),
    ],
)  # fmt: skip
def test_impersonated_user_of_the_headers(headers: list[tuple[str, str]], user: User) -> None:
    assert act(*headers)[0] == user


def test_each_part_is_a_right_of_its_own() -> None:
    verb, group = "impersonate", "authentication.k8s.io"
    _, asked = act(("user", "joe"), ("group", "g"), ("extra-a%2Fb", "x"), ("uid", "7"))
    assert asked == [
        Attributes(verb, resource="users", name="joe"),
        Attributes(verb, resource="groups", name="g"),
        Attributes(verb, group, "userextras", "a/b", name="x"),
        Attributes(verb, group, "uids", name="7"),
    ]
    _, asked = act(("user", "system:serviceaccount:s:r"))
    assert asked == [Attributes(verb, resource="serviceaccounts", namespace="s", name="r")]
    assert act(("user", ""))[1] == []


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        ([("group", "g")], "{Group  g    }"),
        ([("uid", "7")], "{UID  7  authentication.k8s.io/v1  }"),
        ([("extra-k", "x"), ("group", "g")], "{Group  g    } {UserExtra  x  authentication.k8s.io/v1  k}"),
    ],
)
def test_parts_without_a_user_are_refused(headers: list[tuple[str, str]], shown: str) -> None:
    with pytest.raises(StatusError) as refused:
        act(*headers)
    assert (refused.value.code, refused.value.message) == (400, f"requested [{shown}] without impersonating a user")
