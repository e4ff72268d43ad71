"""Requests that must change nothing: each change, by each role, with each content type, from each origin.

A page of another site has a browser send what it likes with the user's login, except a JSON type, a header of
its own, and the token of a form, which it cannot read. Left out is what may change something: a change of the
management by ``manage``, of the same origin or of no page, with a JSON type or the header for changes.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jdbcstore import Destination
from jdbcstore.broker.console.actions import ACTIONS
from jdbcstore.broker.operations import OPERATIONS
from jdbcstore.config.broker import Address
from tests.support.broker.jolokia import BROKER, ORDERS, exec_

PASSWORD = "secret"
LOGINS = (("", ""), ("view", PASSWORD), ("browse", PASSWORD), ("manage", PASSWORD))
WRONG = ("manage", "guessed")
_FORM = "application/x-www-form-urlencoded"
_TYPES = (
    *(None, "", "text/plain", _FORM, "multipart/form-data; boundary=x", "application/octet-stream"),
    *("application/json", "text/json", "application/json; charset=utf-7", "application/jsonp"),
    "text/plain;application/json",
)
_JSON = ("application/json", "text/json")
_OWN: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "http://{host}", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
)
_FOREIGN: tuple[dict[str, str], ...] = (
    *({"Origin": one} for one in ("http://127.0.0.1:1", "http://localhost:3000", "https://{host}.evil.test")),
    *({"Origin": one} for one in ("null", "http://wiki.corp.test", "http://{host}\u0085", "file://")),
    *({"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"} for site in ("same-site", "cross-site")),
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Origin": "http://wiki.corp.test", "X-Requested-By": "me"},
    {"Sec-Fetch-Site": "same-site", "X-Requested-By": "me"},
)
_Q = Destination.queue("ORDERS")
_VALUES: dict[str, Any] = dict.fromkeys(("queue", "destination", "target"), _Q)
_FIELDS: dict[str, Any] = {"to": "queue://STOLEN", "topic": "topic://PRICES", "priority": 1, "limit": 10}
_EXECS = (
    *(exec_(ORDERS, one) for one in ("purge()", "pause()", "resetStatistics()")),
    exec_(ORDERS, "sendTextMessage(java.lang.String)", "x"),
    exec_(ORDERS, "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "", "STOLEN"),
    exec_(ORDERS, "removeMatchingMessages(java.lang.String)", "TRUE"),
    exec_(BROKER, "addQueue(java.lang.String)", "STOLEN"),
    exec_(BROKER, "removeQueue(java.lang.String)", "ORDERS"),
)


class _Change(NamedTuple):
    """A change, as JSON and as a form."""

    method: str
    path: str
    fields: dict[str, Any]
    kind: str


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


def _changes() -> Iterator[_Change]:
    for one in OPERATIONS.values():
        if not one.only_reads and one.part != "claims":
            path = one.url(*[_VALUES.get(name, "x") for name in one.path_names])
            yield _Change(one.method, path, _FIELDS, "api")
            yield _Change("GET", path, _FIELDS, "api")
    form = {
        "name": "ORDERS",
        "confirmed": "yes",
        "typed": "ORDERS",
        "counted": 99,
        "to": "STOLEN",
        "body": "x",
    }
    for name in (name for name, one in ACTIONS.items() if OPERATIONS[one.operation].part != "claims"):
        for method in ("GET", "POST"):
            yield _Change(method, f"/console/do/{name}", {**form, "token": "0" * 64}, "console")
    yield _Change("POST", "/console/export", form, "console")
    for asked in _EXECS:
        yield _Change("POST", "/api/jolokia", asked, "jolokia")
        arguments = "/".join([asked["mbean"], asked["operation"], *asked["arguments"]])
        yield _Change("GET", f"/api/jolokia/exec/{arguments.replace(' ', '%20')}", {}, "jolokia-get")
    for page in ("queues", "topics", "subscribers"):
        yield _Change("POST", f"/admin/xml/{page}.jsp", form, "admin")


_CHANGES = tuple(_changes())


def requests(address: Address, seed: int, count: int, *, wrong: float) -> Iterator[Request]:
    """So many requests, of which this part has a wrong password, which takes the broker long to verify."""
    rng = random.Random(seed)
    while count:
        found = _request(rng, address, wrong)
        if found is not None:
            count -= 1
            yield found


def _request(rng: Random, address: Address, wrong: float) -> Request | None:
    change, kind = rng.choice(_CHANGES), rng.choice(_TYPES)
    login = WRONG if rng.random() < wrong else rng.choice(LOGINS)
    is_own = rng.random() < 0.4
    origin = rng.choice(_OWN if is_own else _FOREIGN)
    is_marked = is_own and rng.random() < 0.2  # by the header for changes, which no page of others can add
    is_json = kind is not None and kind.partition(";")[0] in _JSON
    if is_own and login == LOGINS[-1] and (is_json or is_marked) and change.kind != "console":
        return None
    headers = {name: value.format(host=f"{address.host}:{address.port}") for name, value in origin.items()}
    if is_marked:
        headers["X-Requested-By"] = "me"
    if kind is not None:
        headers["Content-Type"] = kind
    if login[0]:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    as_form = change.kind == "console" or kind == _FORM
    body = urlencode(change.fields).encode() if as_form else json.dumps(change.fields).encode()
    path = change.path
    if change.method == "GET":
        path, body = f"{path}?{urlencode(change.fields)}" if change.kind != "jolokia-get" else path, b""
    return Request(change.method, path, body, headers)


def cross(address: Address, seed: int, count: int, *, wrong: float = 0.01) -> Counter[int]:
    """Send requests, one after the other; the number of answers of each status."""
    statuses: Counter[int] = Counter()
    connection = http.client.HTTPConnection(*address, timeout=60)
    for one in requests(address, seed, count, wrong=wrong):
        connection.putrequest(one.method, one.path, skip_accept_encoding=True)
        for name, value in one.headers.items():
            connection.putheader(name, value.encode("utf-8"))
        connection.putheader("Content-Length", str(len(one.body)))
        connection.endheaders(one.body)
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
    connection.close()
    return statuses
