"""The console's pages and operations, as a browser without script uses them."""

from __future__ import annotations

import html
import http.client
import json
import logging
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import stomp

import jdbcstore
from jdbcstore import BodyType, Destination, Message
from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.management.texts import moment
from jdbcstore.broker.security import hash_password
from jdbcstore.config.broker import Address
from jdbcstore.config.store import StoreConfig
from jdbcstore.config.users import ROLES, write_user
from jdbcstore.message.values import Byte, Char
from jdbcstore.testing.polling import wait_until
from tests.support.broker.api import queue
from tests.support.broker.console import FORM, ConsoleClient, Form, console_of
from tests.support.broker.programs import BrokerProcess, Client
from tests.support.ports import free_port

MESSAGES = "/dead-letters", "/configuration", "/log"
"""Pages for the role browse."""
WAIT = 120.0
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"
PAGES = (
    "", "/queues", "/topics", "/consumers", "/connections", "/dead-letters", "/transactions", "/broker",
    "/database", "/operations", "/scheduled", "/configuration", "/log",
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ConsoleClient, int]]:
    folder = tmp_path_factory.mktemp("console")
    url = f"sqlite:///{folder}/mq.db"
    with console_of(url, environment="tasting", environment_color="purple", scheduler_support=True) as found:
        yield found


@pytest.fixture
def console(served: tuple[ConsoleClient, int]) -> ConsoleClient:
    return served[0]


def test_every_page_opens_and_keeps_to_itself(console: ConsoleClient) -> None:
    for path in PAGES:
        page = console.get(path)
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["Cache-Control"] == "no-store"
        assert all(script.startswith("/console/static/console.js?") for script in page.scripts)
        assert f" · {console.api.address}" in page.text
        assert "tasting serving as of " in page.text
        assert "/mq.db" in page.text
        for tag, given in page.elements:
            if tag in ("link", "img", "script"):
                asked = console.ask("GET", given.get("href") or given["src"])
                assert (asked.status, asked.headers["X-Content-Type-Options"]) == (200, "nosniff")
    assert ("header", {"class": "top purple"}) in page.elements
    assert console.api.get("/api/broker")["identity"]["environment"] == "tasting"
    assert console.ask("GET", "/console/nothing").status == 404
    assert console.ask("GET", "/console/static/..%2Fpages.py").status == 404


def test_a_message_is_sent_found_and_looked_at(console: ConsoleClient) -> None:
    sent = console.act(
        "/do/send", {"name": "A/B c"}, body="two pints", properties="table:int=7\nname=bar", jms_type="order"
    )
    assert "The message was sent." in sent.text
    console.act("/do/send", {"name": "A/B c"}, body="a pie", properties="table:int=8")
    assert "A/B c" in console.get("/queues", search="b C").text
    found = console.get("/queue", name="A/B c", selector="table = 7")
    [where] = {link for link in found.links if link.startswith("/console/message")}
    shown = console.ask("GET", where)
    assert "two pints" in shown.text
    assert "TextMessage" in shown.text
    assert "table int 7" in shown.text
    assert "JMSType order" in shown.text
    wrong = console.ask("GET", "/console/queue?" + urlencode({"name": "A/B c", "selector": "table >"}))
    assert wrong.status == 400
    assert "two pints" not in wrong.text


def test_operations_ask_first_and_say_what_they_did(console: ConsoleClient) -> None:
    api = console.api
    for number in range(6):
        api.post(queue("WORK", "messages"), body=f"m{number}", properties={"n": number})
    asked = console.get("/do/purge", name="WORK")
    assert "Remove all messages" in asked.text
    assert api.get(queue("WORK"))["size"] == 6
    moved = console.act("/do/move", {"name": "WORK"}, selector="n < 2", to="ELSEWHERE", limit="")
    assert "2 messages were moved to ELSEWHERE." in moved.text
    copied = console.act("/do/copy", {"name": "WORK"}, limit="1", selector="", to="topic://T")
    assert "1 message was copied to T." in copied.text
    refused = console.act("/do/remove", {"name": "WORK"}, selector=" ", limit="")
    assert refused.status == 400
    removed = console.act("/do/remove", {"name": "WORK"}, selector="n = 2", limit="")
    assert "1 message was removed." in removed.text
    console.act("/do/pause", {"name": "WORK"})
    assert api.get(queue("WORK"))["is_paused"]
    assert "WORK is paused" in console.get().text
    console.act("/do/resume", {"name": "WORK"})
    assert not api.get(queue("WORK"))["is_paused"]
    assert "3 messages were removed." in console.act("/do/purge", {"name": "WORK"}).text
    assert "WORK was deleted" in console.act("/do/delete", {"name": "WORK"}).text
    assert api.ask("GET", queue("WORK"))[0] == 404
    assert console.ask("GET", "/console/queue?name=WORK").status == 404
    assert console.act("/do/purge", {"name": "WORK"}).status == 404
    assert "topic" in console.act("/do/delete", {"name": "T", "kind": "topic"}).source
    console.act("/do/checkpoint", {})


def test_chosen_messages(console: ConsoleClient) -> None:
    for number in range(3):
        console.api.post(queue("CHOSEN", "messages"), body=f"m{number}")
    page = console.get("/queue", name="CHOSEN")
    [form] = [one for one in page.forms if one.method == "post"]
    ids = [given["value"] for tag, given in page.elements if tag == "input" and given.get("name") == "id"]
    form.action = "/console/do/remove"
    assert console.send(form).status == 400
    form.fields += [("id", one) for one in ids[:2]]
    asked = console.send(form)
    assert console.api.get(queue("CHOSEN"))["size"] == 3
    [confirmation] = [one for one in asked.forms if one.method == "post"]
    assert "2 messages were removed." in console.send(confirmation).text
    [left] = console.api.get(queue("CHOSEN", "messages"))
    assert left["message_id"] == ids[2]


def test_clients_are_seen_and_dropped(served: tuple[ConsoleClient, int]) -> None:
    console, port = served
    client = Client(port, acknowledges=False)
    client.connect()
    try:
        client.consume("/queue/SEEN")
        console.api.post(queue("SEEN", "messages"), body="held")
        client.wait_for(1)
        assert "SEEN" in console.get("/consumers").text
        page = console.get("/connections")
        [where] = {link for link in page.links if "/do/drop" in link}
        asked = console.ask("GET", where)
        [form] = [one for one in asked.forms if one.method == "post"]
        assert "The connection was closed" in console.send(form).text
    finally:
        client.drop()


def test_durable_subscriptions_are_deleted(served: tuple[ConsoleClient, int]) -> None:
    console, port = served
    connection = stomp.Connection12([("127.0.0.1", port)])
    connection.connect(wait=True, headers={"client-id": "board"})
    connection.subscribe("/topic/PRICES", id="1", ack="auto", headers={"activemq.subscriptionName": "all"})
    wait_until(lambda: "board : all" in console.get("/consumers").text)
    assert "board : all" in console.get("/topic", name="PRICES").text
    connection.disconnect()
    wait_until(lambda: "offline" in console.get("/consumers").text)
    found = console.act("/do/unsubscribe", {"client": "board", "subscription": "all"})
    assert "The durable subscription was deleted." in found.text
    assert "board" not in console.get("/consumers").text


def test_dead_letters_are_grouped_and_go_back(served: tuple[ConsoleClient, int]) -> None:
    console, port = served
    connection = stomp.Connection12([("127.0.0.1", port)])

    class Rejecting(stomp.ConnectionListener):  # type: ignore[misc]
        def on_message(self, frame: object) -> None:
            connection.nack(frame.headers["ack"])  # type: ignore[attr-defined]

    connection.set_listener("", Rejecting())
    connection.connect(wait=True, headers={"client-id": "pay-bad"})
    connection.subscribe("/queue/PAY", id="1", ack="client-individual")
    for number in range(3):
        console.api.post(queue("PAY", "messages"), body=f"m{number}")

    def dead() -> int:
        answer = console.api.ask("GET", queue("ActiveMQ.DLQ"))[1]
        return int(answer.get("size", 0))

    wait_until(lambda: dead() == 3)
    connection.disconnect()
    wait_until(lambda: console.api.get(queue("PAY"))["consumers"] == 0)
    page = console.get("/dead-letters")
    assert "Rejected by its consumer 3 PAY client pay-bad" in page.text
    assert [link for link in page.links if "/do/retry" in link and "group=" in link]
    [where] = {link for link in page.links if link.startswith("/console/dead-letters?") and "group=" in link}
    shown = console.ask("GET", where)
    assert "Message 1 of 3" in shown.text
    # The second click: the name, the host and the attempts of the consumer.
    assert re.search(r"Rejected by client pay-bad,.* 127\.0\.0\.1:\d+, connection", shown.text)
    one, every = [form for form in shown.forms if form.action.endswith("/do/retry")]
    assert "1 message was returned to the original destination" in console.send(one).text
    assert dead() == 2
    assert "2 messages were returned to the original destination" in console.send(every).text
    assert (dead(), console.api.get(queue("PAY"))["size"]) == (0, 3)


def test_messages_are_sorted_and_searched_for_a_text(
    console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, body in enumerate(("pear", "a long Apple pie", "fig")):
        properties = {"kind": f"K{number}"}
        console.api.post(queue("FRUIT", "messages"), body=body, priority=number, properties=properties)
    console.api.post(queue("FRUIT", "messages"), body="plum", persistent=False)

    def bodies(**query: str) -> list[str]:
        page = console.get("/queue", name="FRUIT", **query)
        return re.findall(r'<td class="preview">(.*?)</td>', page.source)

    assert bodies() == ["pear", "a long Apple pie", "fig", "plum"]
    assert bodies(sort="body") == ["a long Apple pie", "fig", "pear", "plum"]
    assert bodies(sort="size", order="desc")[0] == "a long Apple pie"
    least = bodies(sort="priority", order="desc", selector="JMSPriority < 3")
    assert least == ["fig", "a long Apple pie", "pear"]
    assert bodies(contains="APPLE") == ["a long Apple pie"]
    assert bodies(contains="k2") == ["fig"]
    assert bodies(contains="nothing") == []
    exported = console.get("/export", name="FRUIT", contains="pear").source
    assert [json.loads(line)["body"] for line in exported.splitlines()] == ["pear"]
    assert "Sorted: the whole queue, 4 messages." in console.get("/queue", name="FRUIT", sort="sent").text
    found = console.get("/queue", name="FRUIT", sort="sent", contains="p").text
    assert "Sorted: the whole queue, 3 matching messages." in found
    assert console.ask("GET", "/console/queue?name=FRUIT&sort=color").status == 400
    monkeypatch.setattr("jdbcstore.broker.console.messages.MOST_SEEN", 2)
    monkeypatch.setattr("jdbcstore.broker.console.messages._ROWS", 1)
    page = console.get("/queue", name="FRUIT", sort="body")
    assert "Sorted: only the first 2 messages of the queue." in page.text
    assert "Page 1 of 2" in page.text
    assert bodies(sort="body", page="2") == ["pear"]
    [link] = {one for one in page.links if "after=" in one and "page=" not in one and "order" not in one}
    following = console.ask("GET", link.partition("#")[0]).text
    assert "Sorted: only the next 1 message of the queue." in following


def test_messages_leave_as_lines_and_files_and_are_sent_again(console: ConsoleClient) -> None:
    given: dict[str, Any] = {"n": 1, "wide": 1 << 40, "ratio": 0.5, "yes": True, "who": "bar"}
    for body in ("two pints\nof bitter", "a pie", "crisps"):
        console.api.post(queue("LEAVE", "messages"), body=body, properties=given, priority=7, jms_type="t")
    page = console.get("/queue", name="LEAVE")
    [chosen] = [one for one in page.forms if ("chosen", "yes") in one.fields]
    ids = [one["value"] for tag, one in page.elements if tag == "input" and one.get("name") == "id"]
    fields, form = chosen.fields, {"Content-Type": FORM}
    found = console.ask("POST", "/console/export", urlencode([*fields, ("id", ids[1])]), form)
    assert found.headers["Content-Disposition"] == "attachment; filename*=UTF-8''LEAVE.jsonl"
    [line] = map(json.loads, found.source.splitlines())
    assert (line["message_id"], line["body"], line["properties"]["wide"]) == (ids[1], "a pie", 1 << 40)
    every = console.ask("GET", "/console/export?" + urlencode({"name": "LEAVE", "selector": "JMSType = 't'"}))
    assert [json.loads(one)["message_id"] for one in every.source.splitlines()] == ids
    assert console.ask("POST", "/console/export", urlencode(fields), form).status == 400
    file = console.ask("GET", "/console/body?" + urlencode({"name": "LEAVE", "id": ids[0]}))
    assert file.source == "two pints\nof bitter"
    assert file.headers["Content-Disposition"].startswith("attachment;")
    [again] = [
        one
        for one in console.get("/do/send", **{"name": "LEAVE", "from": ids[0]}).forms
        if one.method == "post"
    ]
    assert "The message was sent." in console.send(again, jms_type="u").text
    [sent] = console.api.get(queue("LEAVE", "messages?selector=JMSType%20%3D%20%27u%27"))
    assert (sent["body"], sent["properties"], sent["priority"]) == ("two pints\nof bitter", given, 7)
    made = console.act("/do/create", {"name": "MADE", "kind": "topic"})
    assert "MADE was created." in made.text
    assert console.api.get("/api/topics/MADE")["is_topic"]
    status, refused = console.api.ask("PUT", "/api/queues/A%2CB")
    assert (status, "names several destinations" in refused["error"]) == (400, True)


def test_the_life_of_a_message(served: tuple[ConsoleClient, int], caplog: pytest.LogCaptureFixture) -> None:
    console, port = served
    with caplog.at_level(logging.INFO, AUDIT_LOG):
        client = Client(port, acknowledges=False)
        client.connect()
        client.send("/queue/LIFE", "x")
        console.act("/do/move", {"name": "LIFE"}, to="LATER.LIFE", selector="", limit="")
        [where] = {
            link
            for link in console.get("/queue", name="LATER.LIFE").links
            if link.startswith("/console/message?")
        }
        shown = console.ask("GET", where).text
        for text in ("Sent to queue://LIFE by the producer ID:", "Arrived at the broker", "Stored in row"):
            assert text in shown
        assert "Moved here from queue://LIFE" in shown
        assert "Move on its queue by 127.0.0.1, 1 message" in shown
        client.consume("/queue/LATER.LIFE")
        client.wait_for(1)
        assert "which has not acknowledged it" in console.ask("GET", where).text
        client.close()


def test_the_life_of_a_message_has_what_is_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with console_of(url, store=StoreConfig(history_retention=3600.0)) as (console, _):
        console.api.post(queue("ORDERS", "messages"), body="two pints")
        [message] = console.api.get(queue("ORDERS", "messages"))
        console.api.post(queue("ORDERS", "move"), to="ARCHIVE")
        found = {"name": "ARCHIVE", "id": message["message_id"]}
        assert "Left queue://ORDERS: acknowledged, moved or removed" in console.get("/message", **found).text
        console.api.post(queue("ARCHIVE", "purge"))
        gone = console.ask("GET", f"/console/message?{urlencode(found)}")
        assert (gone.status, "Left queue://ARCHIVE: acknowledged, moved or removed" in gone.text) == (
            404,
            True,
        )
        assert "it may have been consumed" in gone.text
        other = {**found, "id": "ID:none:1"}
        assert "History" not in console.ask("GET", f"/console/message?{urlencode(other)}").text


def test_scheduled_messages_are_seen_cancelled_and_sent_at_once(console: ConsoleClient) -> None:
    assert "No messages are scheduled." in console.get("/scheduled").text
    for number, delay in enumerate((3_600_000, 7_200_000)):
        later = {"AMQ_SCHEDULED_DELAY": delay, "AMQ_SCHEDULED_PERIOD": 60_000, "AMQ_SCHEDULED_REPEAT": 2}
        console.api.post(queue("LATER", "messages"), body=f"m{number}", properties=later)
    first, second = console.api.get("/api/scheduled")["scheduled"]
    assert (first["destination"], first["repeats"], first["last_ms"]) == ("queue://LATER", 2, None)
    assert first["at_ms"] < second["at_ms"]
    page = console.get("/scheduled")
    assert f"LATER m0 m0 {first['id']} 2 times" in page.text
    weekly = {"AMQ_SCHEDULED_CRON": "0 3 * * 1"}
    console.api.post(queue("LATER", "messages"), body="report", properties=weekly)
    text = console.get("/scheduled").text
    assert re.search(r"report report \S+ cron 0 3 \* \* 1", text)
    weekly_id = next(
        job["id"] for job in console.api.get("/api/scheduled")["scheduled"] if not job["repeats"]
    )
    console.act("/do/cancel-scheduled", {"job": weekly_id})
    console.act("/do/cancel-scheduled", {"job": second["id"]})
    assert "1 message was sent now." in console.act("/do/send-scheduled", {"job": first["id"]}).text

    def left() -> dict[str, Any]:
        [one] = console.api.get("/api/scheduled")["scheduled"]
        return dict(one)

    wait_until(lambda: left()["repeats"] == 1, what="the message that is sent now")
    assert [one["body"] for one in console.api.get(queue("LATER", "messages"))] == ["m0"]
    assert left()["id"] == first["id"]
    assert moment(left()["last_ms"]) in console.get("/scheduled").text
    console.act("/do/cancel-scheduled", {"job": first["id"]})
    assert console.api.get("/api/scheduled") == {"total": 0, "scheduled": []}
    gone = console.ask("GET", "/console/do/cancel-scheduled?" + urlencode({"job": first["id"]}))
    [form] = [one for one in gone.forms if one.method == "post"]
    assert "it may have been sent" in console.send(form).text


def test_lists_are_searched_compared_sorted_and_cut_into_pages(
    console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        for _ in range(number + 1):
            console.api.post(queue(f"LIST.{number}", "messages"), body="x")

    def names(**asked: str) -> list[str]:
        found = console.get("/queues", search="list.", **asked)
        return [link[-1] for link in found.links if link.startswith("/console/queue?name=LIST.")]

    assert names() == ["0", "1", "2", "3", "4"]
    assert names(sort="size", order="desc") == ["4", "3", "2", "1", "0"]
    assert names(where="size > 1, size <= 4, consumers = 0", sort="size") == ["1", "2", "3"]
    monkeypatch.setattr("jdbcstore.broker.console.tables.ROWS", 2)
    assert names(page="2") == ["2", "3"]
    page = console.get("/queues", search="list.", page="3", where="size > 0")
    [jump] = [one for one in page.forms if ("page", "3") in one.fields]
    assert {("search", "list."), ("where", "size > 0"), ("sort", "name")} <= {*jump.fields}
    wrong = console.ask("GET", "/console/queues?where=size")
    assert (wrong.status, "write, for example" in wrong.text) == (400, True)
    listed = console.api.get("/api/destinations?search=list.&where=size%20%3E%204&sort=idle")
    assert [one["name"] for one in listed["destinations"]] == ["queue://LIST.4"]
    for path in "/connections", "/consumers":
        assert f"No {path[1:]} match." in console.get(path, where="in_flight > 999", sort="in_flight").text


def test_a_group_of_more_dead_letters_than_a_page_has_is_acted_on_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.console.forms._MOMENT", WAIT)
    url, origin = f"sqlite:///{tmp_path}/mq.db", Destination.queue("MANY")
    with jdbcstore.open(url) as store:
        store.queue("ActiveMQ.DLQ").add_messages(
            Message("x", original_destination=origin, properties={"dlqDeliveryFailureCause": cause})
            for cause in ["rejected"] * 1_500 + ["expired"] * 1_200
        )
    with console_of(url) as (console, _):
        for kind, said in (
            ("retry", "1,500 messages were returned to the original destination"),
            ("remove", "1,200 messages were removed"),
        ):
            links = console.get("/dead-letters").links
            where = next(link for link in links if f"/do/{kind}" in link and "group=" in link)
            [form] = [one for one in console.ask("GET", where).forms if one.method == "post"]
            assert said in console.send(form).text
        assert console.api.get(queue("MANY"))["size"] == 1_500
        assert console.api.get(queue("ActiveMQ.DLQ"))["size"] == 0


def test_a_long_operation_is_seen_and_stopped(
    console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdbcstore.broker.console.forms._MOMENT", 0.0)
    for number in range(3):
        console.api.post(queue("LONG", "messages"), body=f"m{number}", properties={"n": number})
    page = console.act("/do/move", {"name": "LONG"}, to="AWAY", selector="n > 0")
    assert "The operation is running" in page.text
    wait_until(lambda: console.api.get(queue("LONG"))["size"] == 1)
    wait_until(lambda: "done" in console.get("/operations").text)
    [one] = [one for one in console.api.get("/api/operations") if one["destination"] == "queue://LONG"]
    assert (one["operation"], one["count"], one["size"], one["seen"]) == ("move", 2, 3, 3)
    assert (one["user"], one["error"], one["is_stopped"]) == ("127.0.0.1", None, False)
    assert console.api.ask("POST", f"/api/operations/{one['id']}/stop", {})[0] == 404
    assert console.api.ask("POST", "/api/operations/none/stop", {})[0] == 404


def test_confirmations_say_how_many_and_are_asked_again(console: ConsoleClient) -> None:
    def asked(path: str, **query: str) -> tuple[str, Form]:
        page = console.get(f"/do/{path}", **query)
        [form] = [one for one in page.forms if one.method == "post"]
        return page.text, form

    def send(count: int) -> None:
        for number in range(count):
            console.api.post(queue("ASKED", "messages"), body="x", properties={"n": number})

    send(3)
    text, form = asked("purge", name="ASKED")
    assert f"On {console.api.address}, tasting" in text
    assert "Now: 3 messages" in text
    found = console.send(form, typed="asked")
    assert "type ASKED to confirm," in found.text
    send(12)
    found = console.send(form, typed="ASKED")
    assert "15 messages instead of 3" in found.text
    assert console.api.get(queue("ASKED"))["size"] == 15
    _, form = asked("remove", name="ASKED")
    found = console.send(form, selector="n < 2")
    assert "this affects 4 messages; confirm it" in found.text
    [again] = [one for one in found.forms if one.method == "post"]
    assert "4 messages were removed." in console.send(again).text
    invalid = console.send(form, selector="n <")
    assert (invalid.status, "n <" in html.unescape(invalid.source)) == (400, True)
    text, form = asked("delete", name="ASKED")
    assert "Now: 11 messages" in text
    assert "was deleted" not in console.send(form).text
    assert "ASKED was deleted" in console.send(form, typed="ASKED").text


def test_after_an_operation_one_is_where_one_was(console: ConsoleClient) -> None:
    for number in range(2):
        console.api.post(queue("PLACE", "messages"), body="x", properties={"n": number})
    before = "/console/queue?name=PLACE&selector=n%20%3E%200&path=x"
    headers = {"Referer": f"http://x{before}&notice=a"}
    asked = console.ask("GET", "/console/do/pause?name=PLACE", headers=headers)
    assert before in asked.links
    lit = [given["href"] for tag, given in asked.elements if tag == "a" and "aria-current" in given]
    assert lit == ["/console/queues"]
    [form] = [one for one in asked.forms if one.method == "post"]
    answer = console.ask("POST", form.action, urlencode(form.fields), {"Content-Type": FORM})
    assert answer.headers["Location"].startswith(f"{before}&notice=")
    message = next(link for link in console.ask("GET", before).links if link.startswith("/console/message"))
    shown = console.ask("GET", message, headers={"Referer": f"http://x{before}"})
    move = next(link for link in shown.links if "/do/move" in link)
    assert before in console.ask("GET", move, headers={"Referer": f"http://x{message}"}).links
    for elsewhere in ("http://evil.example.com/", "//evil.example.com/x", "/console/do/purge", "http://[x"):
        asked = console.ask("GET", "/console/do/resume?name=PLACE", headers={"Referer": elsewhere})
        [form] = [one for one in asked.forms if one.method == "post"]
        assert dict(form.fields)["back"] == "/console/queue?name=PLACE"


def test_forms_need_the_token_of_their_user(console: ConsoleClient) -> None:
    console.api.post(queue("KEPT", "messages"), body="stays")
    [form] = [one for one in console.get("/do/purge", name="KEPT").forms if one.method == "post"]
    fields = dict(form.fields)
    for token in ("", "0" * 64, fields["token"][:-1], "é"):
        found = console.ask(
            "POST", form.action, urlencode({**fields, "token": token}), {"Content-Type": FORM}
        )
        assert found.status == 403
    right = urlencode(fields)
    for headers in (
        {"Content-Type": FORM, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Content-Type": FORM, "Sec-Fetch-Site": "same-site"},
        {"Content-Type": FORM, "Host": "evil.example.com"},
        {"Content-Type": FORM, "X-Forwarded-For": "192.0.2.1"},
    ):
        assert console.ask("POST", form.action, right, headers).status == 403
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
        assert console.ask("POST", form.action, right, {"Content-Type": kind}).status == 415
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert console.ask(method, form.action, right).status == 405
    many = "&".join(f"a{number}=1" for number in range(3000))
    assert console.ask("POST", form.action, many, {"Content-Type": FORM}).status == 400
    assert console.ask("POST", form.action, "a" * (1 << 21), {"Content-Type": FORM}).status == 413
    assert console.ask("GET", f"{form.action}?{right}").status == 200
    assert console.api.get(queue("KEPT"))["size"] == 1


def test_pages_are_not_for_other_names_or_sites(console: ConsoleClient) -> None:
    for host in ("evil.example.com", "127.0.0.1.evil.example.com", "192.0.2.1"):
        assert console.ask("GET", "/console", headers={"Host": host}).status == 403
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert console.ask("GET", "/console", headers=linked).status == 200
    embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert console.ask("GET", "/console", headers=embedded).status == 403


@pytest.mark.parametrize(
    "path",
    ["/queues?sort=__class__", "/queues?page=0", "/queue?name=", "/queue?name=Q&after=x",
     "/message?name=Q&id=1", "/queue?name=Q&after=1,2,3", "/do/surprise", "/topics?page=%D9%A3",
     "/queue?name=%FF%00"],
)  # fmt: skip
def test_what_is_wrong_is_a_page_that_says_so(console: ConsoleClient, path: str) -> None:
    console.api.post(queue("Q", "messages"), body="stays")
    found = console.ask("GET", f"/console{path}")
    assert found.status in (400, 404)
    assert "Traceback" not in found.source


def test_what_a_client_controls_stays_text(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    name = f"{HOSTILE[:60]}\x07"
    with jdbcstore.open(url) as store:
        hostile: dict[str, Any] = dict.fromkeys(
            ("correlation_id", "jms_type", "group_id", "user_id"), HOSTILE
        )
        bodies = [
            HOSTILE,
            HOSTILE.encode(),
            {HOSTILE: HOSTILE, "n": Byte(7)},
            [HOSTILE, Char("<")],
            None,
            "\ud800",
        ]
        for body in bodies:
            properties = {"a" + HOSTILE: HOSTILE, "dlqDeliveryFailureCause": HOSTILE}
            store.queue(name).add_message(Message(body, properties=properties, **hostile))
            store.queue("ActiveMQ.DLQ").add_message(Message(body, properties=properties, **hostile))
        blob = Message(None, body_type=BodyType.BLOB, remote_blob_url="javascript:alert(3)")
        store.queue(name).add_message(blob)
    with console_of(url) as (console, port):
        connection = stomp.Connection12([("127.0.0.1", port)])
        connection.connect(wait=True, headers={"client-id": HOSTILE})
        connection.subscribe(
            f"/topic/{HOSTILE[:60]}", id="1", ack="auto",
            headers={"activemq.subscriptionName": HOSTILE, "selector": "a = '<script>alert(4)</script>'"},
        )  # fmt: skip
        wait_until(lambda: "active" in console.get("/consumers").text)
        connection.send("/queue/OTHER", "x", headers={HOSTILE.replace(":", ""): HOSTILE})
        wait_until(lambda: console.api.ask("GET", queue("OTHER"))[0] == 200)
        paths = [f"/console{path}" for path in PAGES]
        paths += ["/console/queue?" + urlencode({"name": one}) for one in (name, "ActiveMQ.DLQ", HOSTILE)]
        paths += ["/console/topic?" + urlencode({"name": HOSTILE[:60]})]
        paths += ["/console/queues?" + urlencode({"search": HOSTILE})]
        paths += ["/console/queue?" + urlencode({"name": name, "selector": HOSTILE})]
        paths += ["/console/do/move?" + urlencode(dict.fromkeys(("name", "id", "to", "selector"), HOSTILE))]
        paths += [
            "/console/do/send?" + urlencode(dict.fromkeys(("name", "body", "properties", "ttl"), HOSTILE))
        ]
        paths += ["/console/do/drop?" + urlencode(dict.fromkeys(("connection", "client"), HOSTILE))]
        paths += [f"/console/do/{quote(HOSTILE, safe='')}", f"/console/{quote(HOSTILE, safe='')}"]
        seen, shown = set(), 0
        while paths:
            path = paths.pop()
            if path in seen:
                continue
            seen.add(path)
            page = console.ask("GET", path)
            assert page.status < 500, (path, page.text)
            assert all(one.startswith("/console/static/console.js?") for one in page.scripts), (
                path,
                page.scripts,
            )
            assert [given["alt"] for tag, given in page.elements if tag == "img"] == [""]
            shown += HOSTILE in page.text
            paths += [link for link in page.links if link.startswith("/console/message")]
        assert shown > 15
        connection.disconnect()


def test_what_each_role_sees_and_may_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    users = tmp_path / "users.toml"
    for role in ROLES:
        write_user(users, role, hash_password("secret"), role=role)
    write_user(users, "none", hash_password("secret"))
    with console_of(f"sqlite:///{tmp_path}/mq.db", users_file=str(users)) as (unknown, _):
        address = unknown.api.address
        by_role = {name: ConsoleClient(address, (name, "secret")) for name in (*ROLES, "none")}
        found = unknown.ask("GET", "/console")
        assert (found.status, found.headers["WWW-Authenticate"][:5]) == (401, "Basic")
        assert "mq.db" not in found.text
        renewed = unknown.ask("GET", "/console", headers={"X-Requested-By": "console"})
        assert (renewed.status, renewed.headers["WWW-Authenticate"]) == (
            401,
            None,
        )  # no dialog of the browser
        assert by_role["none"].ask("GET", "/console").status == 403
        manager = by_role["manage"]
        manager.act("/do/send", {"name": "Q"}, body="seen by few", properties="secret=pint")
        [message] = {link for link in manager.get("/queue", name="Q").links if "/message?" in link}
        for role in ("view", "browse"):
            for path in (*PAGES, "/queue?name=Q"):
                page = by_role[role].ask("GET", f"/console{path}")
                assert page.status == 200 or (role, path[:5]) in [("view", one[:5]) for one in MESSAGES]
                assert not any("/do/" in link for link in page.links)
                assert not any(form.method == "post" and "/do/" not in form.action for form in page.forms)
                if role == "view":
                    assert "seen by few" not in page.source
                    assert "pint" not in page.source
            assert by_role[role].ask("GET", "/console/do/purge?name=Q").status == 403
        assert by_role["view"].ask("GET", message).status == 403
        assert "seen by few" in by_role["browse"].ask("GET", message).text
        assert "seen by few" in by_role["browse"].get("/queue", name="Q").text
        [form] = [one for one in manager.get("/do/purge", name="Q").forms if one.method == "post"]
        for role in ("view", "browse"):
            assert by_role[role].send(form).status == 403
        assert by_role["view"].ask("GET", "/console/configuration").status == 403
        shown = by_role["browse"].get("/configuration").text
        assert "manage manage queue://>, topic://> queue://>, topic://> the same destinations" in shown
        assert "$argon2" not in shown + json.dumps(by_role["browse"].api.get("/api/configuration"))
        refused = by_role["browse"].api.get("/api/log?search=needs+the+role")
        assert {(one["level"], one["logger"]) for one in refused} == {
            ("warning", "jdbcstore.broker.management.guard"),
            ("info", AUDIT_LOG),
        }
        assert "this user needs the role" in by_role["browse"].get("/log", search="needs the role").text
        # The token is of its user: another manager's is refused.
        write_user(users, "other", hash_password("secret"), role="manage")
        assert ConsoleClient(address, ("other", "secret")).send(form).status == 403
        assert "1 message was removed." in manager.send(form, typed="Q").text
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == AUDIT_LOG]
    done = [one for one in lines if one["operation"] != "refused"]
    found_lines = [(one["operation"], one["user"], one["peer"], one["count"]) for one in done]
    assert found_lines == [("send", "manage", "127.0.0.1", 1), ("purge", "manage", "127.0.0.1", 1)]
    assert not any("seen by few" in one.getMessage() for one in caplog.records)


def test_a_sick_database_is_an_alarm_with_a_page(tmp_path: Path) -> None:
    with console_of(f"sqlite:///{tmp_path}/mq.db") as (console, _):
        with sqlite3.connect(tmp_path / "mq.db") as connection:
            connection.execute("DROP INDEX ACTIVEMQ_MSGS_XIDX")
        connection.close()
        assert "The database: missing index. ACTIVEMQ_MSGS has no index" in console.get("").text
        page = console.get("/database").text
        assert "bad missing index" in page
        assert "CREATE INDEX" in page
        assert "wal bytes" in page
        assert f"Connected to SQLite {sqlite3.sqlite_version}" in page
        [one] = console.api.get("/api/checkup")["diagnoses"]
        assert one["cure"].startswith("CREATE INDEX ")
        _, metrics = console.api.ask("GET", "/metrics")
        assert 'jdbcstore_database_diagnoses{name="missing index",severity="bad"} 1.0' in str(metrics)
        assert "jdbcstore_database_sick 1.0" in str(metrics)
        assert 'jdbcstore_database_info{engine="SQLite"' in str(metrics)


def test_a_broker_that_waits_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    with console_of(url) as (console, _):
        assert "No problems" in console.get().text
        connection = http.client.HTTPConnection(*console.api.address)
        connection.request("HEAD", "/console")
        assert connection.getresponse().status == 200
        connection.close()


def test_a_problem_is_silenced_until_it_concerns_others(url: str) -> None:
    with console_of(url) as (console, _):
        api = console.api
        api.post(queue("LONELY", "messages"), body="x")
        page = console.get()
        assert "LONELY has messages but no consumer." in page.text
        link = next(link for link in page.links if link.startswith("/console/do/silence"))
        [before] = api.get("/api/alarms")
        assert "silenced for an hour" in console.act("/do/silence", {"alarm": before["key"]}).text
        assert before["key"] in link
        page = console.get()
        assert "1 silenced problem" in page.text
        assert not [link for link in page.links if link.startswith("/console/do/silence")]
        [silenced] = api.get("/api/alarms")
        assert (silenced["since_ms"], silenced["silenced_until_ms"] > before["since_ms"]) == (
            before["since_ms"],
            True,
        )
        api.post(queue("OTHER", "messages"), body="x")
        assert "silenced problem" not in console.get().text
        assert api.ask("POST", "/api/alarms/other/silence")[0] == 404


def test_a_slave_is_no_alarm_and_names_the_master(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/mq.db"
    addresses = [Address("127.0.0.1", free_port()) for _ in range(2)]
    first, second = (("--url", url, "--health", str(one)) for one in addresses)
    with BrokerProcess(tmp_path, *first) as master:
        master.ready()
        master_console = f"http://{addresses[0]}/console"
        with jdbcstore.JdbcStore(url, read_only=True) as store:
            wait_until(store.announced)
        with BrokerProcess(tmp_path, *second) as slave:
            assert slave.line().startswith("waiting for lock")
            page = ConsoleClient(addresses[1]).get()
            other = ConsoleClient(addresses[1]).ask("GET", "/console/queues")
    assert (other.status, master_console in other.links) == (503, True)
    assert "waiting for another broker" in other.text
    assert not any("triage" in given.get("class", "") for _, given in page.elements)
    assert "waiting for another broker" in page.text
    assert master_console in page.links
    assert not any("bad" in given.get("class", "").split() for _, given in page.elements)
    assert page.headers["Server"] == "jdbcstore"


def test_text_of_stomp_clients_is_read_as_text(served: tuple[ConsoleClient, int]) -> None:
    console, port = served
    connection = stomp.Connection12([("127.0.0.1", port)])  # it sends a content-length, as most do
    connection.connect(wait=True)
    for body in ('{"table": 7, "name": "Zoë"}', "\x00\x01"):
        connection.send("/queue/TEXTS", body, receipt="1")
    wait_until(lambda: console.api.ask("GET", queue("TEXTS"))[1].get("size") == 2)
    connection.disconnect()
    page = console.get("/queue", name="TEXTS")
    assert '{"table": 7, "name": "Zoë"}' in page.text
    assert "00 01" in page.text
    shown = console.ask("GET", next(link for link in page.links if link.startswith("/console/message")))
    assert "BytesMessage" in shown.text
    assert '{\n  "table": 7,\n  "name": "Zoë"\n}' in html.unescape(shown.source)
    dumped = console.ask("GET", next(link for link in shown.links if "hex=yes" in link))
    assert "7b 22 74 61" in dumped.text
    back = next(link for link in dumped.links if link.startswith("/console/message"))
    assert "7b 22 74 61" not in console.ask("GET", back).text
