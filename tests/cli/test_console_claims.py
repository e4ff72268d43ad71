"""The console's pages of shared queues, and the operations of ``jdbcstore console --manage``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Claims, Message
from jdbcstore.broker.security import hash_password
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.errors import ClaimLost
from tests.support.broker.api import ApiClient
from tests.support.broker.console import FORM, ConsoleClient
from tests.support.cli.console import console_on

HOSTILE = "<script>alert(1)</script>\"'&key=x"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mq.db"


@pytest.fixture
def claims(url: str) -> Iterator[Claims]:
    with Claims(url, name="w-1") as claims:
        yield claims


def test_claims_are_looked_at(tmp_path: Path, url: str, claims: Claims) -> None:
    queue = claims.queue("ORDERS")
    queue.add(*(Message("x", group_id=key) for key in ("a", "a", HOSTILE)))
    queue.add(Message("later", group_id="a"), delay=3600)
    queue.flow.share(claims=1)
    queue.flow.set_key("b", paused=True)
    queue.reject(*queue.claim())
    [claim] = queue.claim(1)
    claims.queue(HOSTILE).add(Message("x"))

    with console_on(tmp_path, url) as console:
        every = console.get("/claims")
        assert "ORDERS 2 1 1 1" in every.text
        assert HOSTILE in every.text
        assert "w-1" in every.text
        one = console.get("/claims", name="ORDERS")
        assert "at most 1 claim of a key" in one.text
        assert "b paused 0 0 0 0" in one.text
        assert f"{claim.sequence} w-1" in one.text
        assert "delayed 60 min" in one.text.replace("1.0 h", "60 min")
        assert HOSTILE in one.text
        assert re.search(r"Free \d+ Claimed \d+ \d+ delayed", console.get("/queue", name="ORDERS").text)
        for page in (every, one):
            assert page.scripts == page.scripts[:1]
            assert not any("/do/" in link for link in page.links)
        assert console.ask("GET", "/console/claims?name=NONE").status == 404
        assert console.ask("GET", "/console/do/pause-claims?name=ORDERS").status == 404


def test_claims_are_managed(tmp_path: Path, url: str, claims: Claims) -> None:
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password("secret"), role=role)
    queue, other = claims.queue("ORDERS"), claims.queue("OTHER")
    queue.add(*(Message("x", group_id=key) for key in ("a", "a", "")))
    queue.flow.share()
    queue.flow.set_key("a", claims=1)
    [first, second] = queue.claim(2)
    other.add(Message("x"), Message("y"))
    [third] = other.claim()

    log = tmp_path / "err.log"
    with (
        log.open("wb") as stderr,
        console_on(
            tmp_path, url, "--manage", "--users", str(users), login=("manage", "secret"), stderr=stderr
        ) as console,
    ):

        def act(do: str, /, **fields: Any) -> str:
            return console.act(f"/do/{do}", {key: str(value) for key, value in fields.items()}).text

        asked = console.get("/do/pause-claims", name="ORDERS")
        assert "No messages are claimed until you resume" in asked.text
        assert not queue.flow.settings().paused
        assert "Claims are paused" in act("pause-claims", name="ORDERS")
        assert queue.flow.settings().paused
        assert "claimed again" in act("resume-claims", name="ORDERS")
        for key in ("a", ""):
            act("pause-claims", name="ORDERS", key=key)
        assert [(key, one.paused, one.claims) for key, one in queue.flow.key_settings().items()] == [
            ("", True, None), ("a", True, 1),
        ]  # fmt: skip
        act("resume-claims", name="ORDERS", key="a")
        assert not queue.flow.key_settings()["a"].paused

        assert "limits are set" in act("limit-claims", name="ORDERS", claims="3", rate="0.5", burst="")
        found = queue.flow.settings()
        assert (found.claims, found.rate, found.burst, found.keys) == (3, 0.5, 1, "shared")
        act("limit-claims", name="ORDERS", key="", claims="", rate="", burst="", weight="7")
        of_none = queue.flow.key_settings()[""]
        assert (of_none.paused, of_none.claims, of_none.weight) == (True, None, 7)
        for wrong, said in (
            ({"claims": "0"}, "claims must be an integer from 1"),
            ({"rate": "fast"}, "rate must be a number"),
            ({"rate": "", "burst": "2"}, "burst=2 needs a rate"),
        ):
            answer = console.act("/do/limit-claims", {"name": "ORDERS", **wrong})
            assert (answer.status, said in answer.text) == (400, True), answer.text
        act("limit-claims", name="ORDERS", claims="", rate="", burst="")
        assert queue.flow.settings().claims is None

        ordered = {"keys": "in order", "claims": "2", "rate": "4", "burst": ""}
        assert "use of keys is set" in act("share-claims", name="ORDERS", **ordered)
        found = queue.flow.settings()
        assert (found.keys, found.claims_per_key, found.rate_per_key, found.burst_per_key) == (
            "in order", 2, 4.0, 4,
        )  # fmt: skip
        link = next(link for link in console.get("/claims", name="ORDERS").links if "share-claims" in link)
        assert {"keys=in%20order", "claims=2", "rate=4.0", "burst=4"} <= {*link.partition("?")[2].split("&")}
        for wrong, said in (
            ({"keys": "both"}, "keys must be empty"),
            ({"keys": "", "claims": "2"}, "leave them empty"),
            ({"keys": "shared", "burst": "2"}, "burst=2 needs a rate"),
        ):
            answer = console.act("/do/share-claims", {"name": "ORDERS"}, **wrong)
            assert (answer.status, said in answer.text) == (400, True), answer.text
        act("share-claims", name="ORDERS", keys="shared")
        assert queue.flow.settings().claims_per_key is None

        assert "The message can be claimed again" in act(
            "release-message", name="ORDERS", message=first.sequence
        )
        with pytest.raises(ClaimLost):
            queue.acknowledge(first)
        queue.acknowledge(second)
        gone = console.act("/do/release-message", {"name": "ORDERS", "message": str(second.sequence)})
        assert (gone.status, "neither claimed nor delayed" in gone.text) == (404, True)
        large = console.act("/do/release-message", {"name": "ORDERS", "message": str(1 << 63)})
        assert (large.status, "not the ID of a message" in large.text) == (400, True)
        assert "1 message was removed" in act("purge-free", name="OTHER")
        assert "1 lease ended" in act("release-worker", worker="w-1")
        with pytest.raises(ClaimLost):
            other.acknowledge(third)
        assert console.act("/do/release-worker", {"worker": "nobody"}).status == 404

        refused = ConsoleClient(console.api.address, ("browse", "secret"))
        assert refused.ask("GET", "/console/do/purge-free?name=ORDERS").status == 403
        assert not any("/do/" in link for link in refused.get("/claims", name="ORDERS").links)
        forged = console.ask(
            "POST", "/console/do/purge-free", "name=ORDERS&confirmed=yes", {"Content-Type": FORM}
        )
        assert forged.status == 403
    audited = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"time_ms"')]
    lines = [line for line in audited if line["operation"] != "refused"]
    refusals = [line["user"] for line in audited if line["operation"] == "refused"]
    assert refusals == ["browse", "manage"]
    assert {line["user"] for line in lines} == {"manage"}
    assert [(line["operation"], line.get("key"), line.get("error")) for line in lines[:4]] == [
        ("pause-claims", None, None),
        ("resume-claims", None, None),
        ("pause-claims", "a", None),
        ("pause-claims", "", None),
    ]
    assert [line.get("count", line.get("error")) for line in lines[-3:]] == [1, 1, "MessageNotFound"]


def test_claims_are_managed_over_http(tmp_path: Path, url: str, claims: Claims) -> None:
    users, log = tmp_path / "users.toml", tmp_path / "err.log"
    for role in ROLES:
        write_user(users, role, hash_password("secret"), role=role)
    orders = claims.queue("ORDERS")
    orders.add(*(Message("x", group_id=key) for key in ("a", "")))
    orders.flow.share()
    [claim] = orders.claim()

    manage = ("--manage", "--users", str(users))
    with log.open("wb") as stderr, console_on(tmp_path, url, *manage, stderr=stderr) as console:
        api, viewer = (ApiClient(console.api.address, (role, "secret")) for role in ("manage", "view"))
        found = viewer.get("/api/claims?queue=ORDERS")
        [numbers] = found["queues"]
        assert (numbers["queue"], numbers["claimed"], numbers["settings"]["keys"]) == ("ORDERS", 1, "shared")
        assert [one["key"] for one in numbers["keys"]] == ["", "a"]
        [held] = viewer.get("/api/queues/ORDERS/claims")
        assert (held["sequence"], held["worker"]) == (claim.sequence, "w-1")

        assert viewer.ask("POST", "/api/queues/ORDERS/claims/pause", {})[0] == 403
        assert not orders.flow.settings().paused
        assert api.post("/api/queues/ORDERS/claims/pause") == {}
        assert orders.flow.settings().paused
        assert api.post("/api/queues/ORDERS/claims/resume") == {}
        assert api.post("/api/queues/ORDERS/claims/pause", key="") == {}
        assert [key for key, one in orders.flow.key_settings().items() if one.paused] == [""]
        assert api.post("/api/queues/ORDERS/claims/limit", claims=3, rate=0.5) == {}
        assert (orders.flow.settings().claims, orders.flow.settings().rate) == (3, 0.5)
        assert api.post("/api/queues/ORDERS/claims/share", keys="in order", claims=1) == {}
        assert (orders.flow.settings().keys, orders.flow.settings().claims_per_key) == ("in order", 1)
        for path, fields, said in (
            ("limit", {"claims": 0}, "claims must be an integer from 1"),
            ("limit", {"rate": "fast"}, "rate must be a number"),
            ("limit", {"burst": 2}, "burst=2 needs a rate"),
            ("share", {"claims": 2}, "have no limits"),
            ("pause", {"keys": "a"}, "unknown field 'keys'"),
            ("first/release", {}, "not the ID of a message"),
            (f"{1 << 63}/release", {}, "not the ID of a message"),
        ):
            status, answer = api.ask("POST", f"/api/queues/ORDERS/claims/{path}", fields)
            assert (status, said in answer["error"]) == (400, True), answer

        assert api.post(f"/api/queues/ORDERS/claims/{claim.sequence}/release") == {}
        with pytest.raises(ClaimLost):
            orders.acknowledge(claim)
        assert api.post("/api/queues/ORDERS/claims/purge")["count"] == 2
        assert api.post("/api/workers/w-1/release")["count"] == 1
        assert api.ask("POST", "/api/workers/nobody/release", {})[0] == 404
        assert api.ask("POST", "/api/queues/ORDERS/pause", {})[0] == 404, "of a broker"

    audited = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"time_ms"')]
    assert [line["user"] for line in audited if line["operation"] == "refused"] == ["view"]
    first = next(line for line in audited if line["operation"] == "pause-claims")
    assert (first["user"], first["destination"], first.get("error")) == ("manage", "queue://ORDERS", None)
    assert [line.get("count", line.get("error")) for line in audited[-3:]] == [2, 1, "MessageNotFound"]


def test_claims_are_only_looked_at_over_http_without_manage(tmp_path: Path, url: str, claims: Claims) -> None:
    claims.queue("ORDERS").add(Message("x"))
    with console_on(tmp_path, url) as console:
        assert [one["queue"] for one in console.api.get("/api/claims")["queues"]] == ["ORDERS"]
        assert console.api.ask("POST", "/api/queues/ORDERS/claims/pause", {})[0] == 404
        assert not claims.queue("ORDERS").flow.settings().paused
