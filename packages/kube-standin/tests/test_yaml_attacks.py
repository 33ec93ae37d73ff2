"""YAML bodies made to fell or freeze the server: each is answered in time while others are served, in bounded memory.

A server process of its own, because what is looked for would take this one down too.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.attacked import Worked
from tests.waiting import DEADLINE

pytestmark = pytest.mark.timed
ANSWERED = 2.0
"""Seconds until a bomb is answered."""
SERVED = 0.5
"""Seconds until another client is, meanwhile."""
MEGABYTES = 500
LONGEST_ANSWER = 16 * 1024

BODY = 3 * 1024 * 1024 - 1024
"""Characters of a body that is just not too large."""
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEW = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
MERGES = "m0: &m0 {a: 1, b: 2}\n" + "".join(
    f"m{j}: &m{j} {{<<: [{','.join([f'*m{j - 1}'] * 50)}]}}\n" for j in range(1, 40)
)
DEEPER = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 500))

BOMBS = {
    "brackets": ("a: " + "[" * 100_000, 400, "nested deeper than 100 levels"),
    "closed brackets": ("a: " + "[" * 100_000 + "]" * 100_000, 400, "nested deeper than 100 levels"),
    "three megabytes of brackets": ("a: " + "[" * BODY, 400, "nested deeper than 100 levels"),
    "braces": ("a: " + "{b: " * 100_000, 400, "nested deeper than 100 levels"),
    "dashes": ("a:\n" + "- " * 1_000_000 + "x", 400, "nested deeper than 100 levels"),
    "block": ("".join(" " * i + "a:\n" for i in range(2_000)), 400, "nested deeper than 100 levels"),
    "depth by aliases": (DEEPER, 400, "nested deeper than 100 levels"),
    "laughs": (LAUGHS, 400, "aliases stand for more than"),
    "quadratic": ("a: &a [" + "x," * 10_000 + "]\nb: [" + "*a," * 100_000 + "]\n", 400, "aliases stand for more than"),
    "a text behind aliases": ("a: &a " + "x" * 2**20 + "\nb: [" + "*a," * 3900 + "]", 400, "bytes of text"),
    "a text behind aliases as values": (
        "a: &a " + "x" * 2**20 + "\n" + "".join(f"b{n}: *a\n" for n in range(3900)),
        400,
        "bytes of text",
    ),
    "a text behind aliases of aliases": (
        "a0: &a0 [" + "x" * 100_000 + "]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 15)),
        400,
        "bytes of text",
    ),
    "a key behind aliases": (
        "? &a " + "x" * 1_000_000 + "\n: 1\nb: [" + "{? *a : 1}," * 1000 + "]",
        400,
        "bytes of text",
    ),
    "a key in a merged map": (
        "m: &m {? " + "x" * 1_000_000 + "\n: 1}\n" + "".join(f"m{n}: {{<<: *m}}\n" for n in range(1000)),
        400,
        "bytes of text",
    ),
    "as much text behind aliases as may be": ("a: &a " + "x" * 2**20 + "\nb: [*a, *a, *a]", 0, ""),
    "merges": (MERGES, 400, "aliases stand for more than"),
    "lists": ("a: [" + "[[],[]]," * (BODY // 8 - 30) + "]", 400, "too many for so little text"),
    "maps": ("a: [" + "{}," * (BODY // 3 - 60) + "]", 400, "an object of more than 200000 values"),
    "keys": ("a: {" + ",".join(f"k{i}: 1" for i in range(250_000)) + "}", 400, "an object of more than 200000 values"),
    "aliases of one": ("a: &a x\nb:\n" + "- *a\n" * (BODY // 5 - 30), 400, "an object of more than 200000 values"),
    "documents": ("---\n" * (BODY // 4 - 60), 400, "too many for so little text"),
    "too many values": ("a: [" + "[]   ,  " * (BODY // 8 - 30) + "]", 400, "an object of more than 200000 values"),
    "as many values as may be": ("a: [" + "[]           ,  " * (BODY // 16 - 30) + "]", 0, ""),
    "tag directives": ("%TAG !a! b\n" * (BODY // 11) + "--- a", 400, "more than 100 lines start with a %"),
    "a long tag": ("a: !" + "x" * 1_000_000 + " b", 400, "is not allowed"),
    "a long anchor": ("a: *" + "x" * 1_000_000, 400, "found undefined alias"),
    "a long key": ("? " + "x" * 1_000_000 + "\n: 1\n", 0, ""),
    "a long key twice": ("a: {" + ("? " + "x" * 1_000_000 + "\n: 1,") * 2 + "}\n", 0, ""),
    "a long number": ("a: " + "9" * 1_000_000, 0, ""),
    "a long text": ("a: |\n" + "  x\n" * 700_000, 0, ""),
    "a key many times": ("a: 1\n" + "bb: 222222\n" * 250_000, 0, ""),
    "keys of no text": ("~: 1", 400, "a key must be text"),
    "python": ("a: !!python/object/apply:os.system ['true']", 400, "is not allowed"),
    "another document": ("a: 1\n---\nb: 1", 400, "expected one document"),
    "not UTF-8": ("a: \udcff", 400, "not UTF-8 text"),
}
"""Name to what follows the head of the object, the code (0: any but 500) and what the message says."""


@dataclass
class Client:
    """One connection with one token."""

    connection: http.client.HTTPSConnection
    token: str

    def __call__(self, method: str, path: str, body: bytes | None = None, media: str = "application/json") -> Any:
        """Status and bytes of the answer."""
        self.connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", "Content-Type": media})
        answer = self.connection.getresponse()
        return answer.status, answer.read()


@dataclass
class Server:
    """A running `kube-standin serve`."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    context: ssl.SSLContext
    tokens: dict[str, str]

    @contextmanager
    def client(self, user: str = "admin") -> Iterator[Client]:
        """A connection of its own."""
        with closing(http.client.HTTPSConnection(*self.address, context=self.context, timeout=DEADLINE)) as connection:
            yield Client(connection, self.tokens[user])

    def request(self, method: str, path: str, body: bytes | None = None, media: str = "application/json") -> Any:
        """One request of the admin."""
        with self.client() as client:
            return client(method, path, body, media)

    @property
    def megabytes(self) -> float:
        """The most memory it has ever held."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("attacked")
    files = {"admin": directory / "admin", "reader": directory / "reader"}
    process = subprocess.Popen(
        [sys.executable, "-m", "kube_standin", "serve", "--port", "0", "--data-dir", str(directory / "data"),
         "--kubeconfig", str(files["admin"]), "--read-only-kubeconfig", str(files["reader"])],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("export KUBECONFIG=")
        read = {name: yaml.safe_load(file.read_text()) for name, file in files.items()}
        cluster = read["admin"]["clusters"][0]["cluster"]
        host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        tokens = {name: config["users"][0]["user"]["token"] for name, config in read.items()}
        yield Server(process, (host, int(port)), context, tokens)
    finally:
        process.kill()
        process.communicate()


def slowest_while(server: Server, work: Any) -> tuple[Any, float, float]:
    """What `work` gives and its seconds (`Worked`), and the slowest answer that another client got meanwhile."""
    slowest, done = 0.0, False

    def ask() -> None:
        nonlocal slowest
        with server.client() as client:
            while not done:
                worked = Worked(server.process.pid)
                assert client("GET", "/api/v1/namespaces/default")[0] == 200
                slowest = max(slowest, worked.seconds)

    with ThreadPoolExecutor(1) as other:
        asking = other.submit(ask)
        worked = Worked(server.process.pid)
        try:
            found = work()
            seconds = worked.seconds
        finally:
            done = True
        asking.result()
    return found, seconds, slowest


@pytest.mark.parametrize("door", ["review", "create", "apply"])
@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_answered_while_others_are_served(server: Server, name: str, door: str) -> None:
    text, code, message = BOMBS[name]
    head = text[: text.rindex("%TAG") + 11] if text.startswith("%") else ""  # directives come before all else
    body = text if head or text.startswith("---") else (REVIEW if door == "review" else MAP % "bomb") + text
    raw = body.encode("utf-8", "surrogateescape")
    doors = {
        "review": ("POST", REVIEWS, "application/yaml", "reader"),
        "create": ("POST", f"{MAPS}?dryRun=All", "application/yaml", "admin"),
        "apply": ("PATCH", f"{MAPS}/bomb?fieldManager=x&dryRun=All", "application/apply-patch+yaml", "admin"),
    }
    method, path, media, user = doors[door]
    with server.client(user) as client:
        (status, answer), seconds, slowest = slowest_while(server, lambda: client(method, path, raw, media))
    own = b"failed to create typed patch object" in answer  # upstream's 500 of an apply that does not fit the schema
    assert status == code if code else status < 500 or own, answer[:500]
    if status >= 400:
        assert message in json.loads(answer)["message"]
        assert len(answer) < LONGEST_ANSWER
    assert seconds < ANSWERED
    assert slowest < SERVED
    assert server.megabytes < MEGABYTES


def test_watch_goes_on_while_large_bodies_are_read(server: Server) -> None:
    """Once is enough: while this client stands still the server may get done with all of them."""
    assert any(seen_meanwhile(server, f"seen-{turn}") for turn in range(20)), "it goes on only when they are read"
    assert server.megabytes < MEGABYTES


def seen_meanwhile(server: Server, name: str) -> bool:
    """Make an object while large bodies are read and see it; whether it came before the last of them was."""
    raw = (MAP % "bomb" + BOMBS["as many values as may be"][0]).encode()
    with server.client() as watching, ThreadPoolExecutor(4) as senders:
        watching.connection.request("GET", f"{MAPS}?watch=1", headers={"Authorization": f"Bearer {watching.token}"})
        events = watching.connection.getresponse()
        path = f"{MAPS}?dryRun=All"
        bombs = [senders.submit(server.request, "POST", path, raw, "application/yaml") for _ in range(4)]
        worked = Worked(server.process.pid)
        made = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()
        assert server.request("POST", MAPS, made)[0] == 201
        while json.loads(events.readline())["object"]["metadata"]["name"] != name:
            pass
        assert worked.seconds < SERVED
        under_way = not all(bomb.done() for bomb in bombs)
        assert all(bomb.result()[0] < 500 for bomb in bombs)
        events.close()
    return under_way


def test_keys_that_are_numbers_dates_and_booleans_are_text(server: Server) -> None:
    raw = (MAP % "keys" + "data: {1: a, 2026-01-01: b, yes: c, 1.50: d, 0x10: e}").encode()
    status, answer = server.request("POST", MAPS, raw, "application/yaml")
    assert status == 201
    assert json.loads(answer)["data"] == {"1": "a", "2026-01-01": "b", "true": "c", "1.5": "d", "16": "e"}


@pytest.mark.parametrize("value", ["1", "2026-01-01", "yes", "null", "[a]"])
def test_values_are_typed_as_kubectl_reads_them(server: Server, value: str) -> None:
    status, answer = server.request(
        "POST", f"{MAPS}?dryRun=All", (MAP % "v" + f"data: {{a: {value}}}").encode(), "application/yaml"
    )
    if value == "2026-01-01":
        assert (status, json.loads(answer)["data"]) == (201, {"a": "2026-01-01"})
    elif value == "null":
        assert (status, json.loads(answer)["data"]) == (201, {"a": ""})
    else:
        assert status == 400
        assert "cannot unmarshal" in json.loads(answer)["message"]


def test_repeated_keys_follow_the_field_validation(server: Server) -> None:
    raw = (MAP % "twice" + "data:\n  a: v\n  a: w\n").encode()
    status, answer = server.request("POST", f"{MAPS}?dryRun=All&fieldValidation=Strict", raw, "application/yaml")
    assert status == 400
    assert 'line 6: key "a" already set in map' in json.loads(answer)["message"]
    status, answer = server.request("POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", raw, "application/yaml")
    assert (status, json.loads(answer)["data"]) == (201, {"a": "w"})


@pytest.mark.parametrize("what", ["name", "label", "kind", "field", "namespace"])
def test_answer_quotes_excerpts(server: Server, what: str) -> None:
    long = "X" * 1_000_000
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    match what:
        case "name":
            obj["metadata"]["name"] = long
        case "label":
            obj["metadata"]["labels"] = {long: long}
        case "kind":
            obj["kind"] = long
        case "field":
            obj[long] = 1
        case "namespace":
            obj["metadata"]["namespace"] = long
    raw = json.dumps(obj).encode()
    status, answer = server.request("POST", f"{MAPS}?dryRun=All&fieldValidation=Strict", raw)
    assert 400 <= status < 500
    assert len(answer) < LONGEST_ANSWER
