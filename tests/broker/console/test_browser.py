"""A walk through every page and every operation of the consoles in headless Chromium, under a small load."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import stomp

import jdbcstore
from jdbcstore import Claims, Destination, Message
from jdbcstore.errors import ClaimLost
from jdbcstore.message.ids import XATransactionId
from jdbcstore.stores.claims import QueueFlow
from jdbcstore.testing.polling import wait_until
from tests.docs.site import PHONE, WIDE, Browser, chromium
from tests.support import axe
from tests.support.broker.api import queue
from tests.support.broker.console import ConsoleClient, console_of
from tests.support.broker.programs import Client
from tests.support.broker.walk import PAGES, Walk, load
from tests.support.cli.console import console_on
from tests.support.require import unavailable

pytestmark = [
    pytest.mark.backends("sqlite", "postgresql"),
    pytest.mark.slow,
    pytest.mark.xdist_group("chromium"),
]
OF_COLORS, OF_SIZES = ("color-contrast", "link-in-text-block"), ("target-size", "scrollable-region-focusable")
"""Rules of axe-core: what differs in the dark, and on a phone."""
LARGE = (1440, 900)
HIDDEN = """
    [...document.querySelectorAll("main tbody tr")].flatMap((row) => {
        const cells = [...row.cells].filter((cell) => cell.checkVisibility());
        return [cells[1], ...row.querySelectorAll(".button, button")].filter((one) => {
            const { left, right } = one?.getBoundingClientRect() ?? { left: 0, right: 0 };
            return left < 0 || Math.floor(right) > innerWidth;
        }).map((one) => one.outerHTML.slice(0, 200));
    })
"""
"""The second cells and the buttons of rows that begin or end outside the window."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        unavailable("chromium", "on Debian: apt-get install chromium")
    with chromium(program) as found:
        yield found


def prepare(url: str) -> None:
    """What cannot be done over STOMP: transactions in doubt, and dead letters."""
    with jdbcstore.open(url) as store:
        for number in range(2):
            branch = store.xa.start(XATransactionId(1, b"walk", bytes([number])))
            branch.queue("DOUBT").add_message(Message(f"x{number}"))
            assert branch.prepare()
        dead = Message("dead", original_destination=Destination.queue("WORK"))
        store.queue("ActiveMQ.DLQ").add_messages([dead, dead])


@pytest.mark.whole("postgresql")
def test_every_page_and_operation(url: str, browser: Browser) -> None:
    prepare(url)
    with console_of(url) as (console, port):
        subscriber = stomp.Connection12([("127.0.0.1", port)])
        subscriber.connect(wait=True, headers={"client-id": "board"})
        subscriber.subscribe(
            "/topic/PRICES", id="1", ack="auto", headers={"activemq.subscriptionName": "all"}
        )
        wait_until(lambda: "board" in console.get("/consumers").text)
        address = console.api.address
        walk = Walk(browser, f"http://{address}/")
        browser.resize(*WIDE)
        with load(port):
            _look(walk, console)
            _change_messages(walk, console)
            _end_others(walk, console, subscriber)
            _look_on_a_phone(walk)
        browser.resize(*WIDE)
        walk.click("Lock and store", "nav")
        assert "counters were reset" in walk.act("Reset all counters")
        walk.open("console/do/checkpoint")
        assert "in the database" in walk.confirm()
        walk.click("Hand over", "main")
        assert walk.opened > 60
        assert "handed over" in walk.confirm()
        browser.open("about:blank")  # it would renew itself when the broker is gone


@pytest.mark.backends("sqlite")
def test_a_page_says_that_its_broker_does_not_answer(url: str, browser: Browser) -> None:
    browser.resize(*WIDE)
    state, banner = (f"document.getElementById('{name}').innerText" for name in ("state", "banner"))
    with console_of(url, environment="production", environment_color="red") as (console, _):
        address = console.api.address
        walk = Walk(browser, f"http://{address}/")
        answers = "window.kept = window.kept ?? fetch; window.fetch = async () => "
        for path, is_live in (("console", True), ("console/do/purge?name=Q", False)):
            walk.open(path)
            title = str(walk.value("document.title"))
            assert title.endswith(f" · {address}")
            assert re.search(r"serving.*as of \d\d:\d\d:\d\d UTC", str(walk.value(state)), re.DOTALL)
            focused = walk.value("document.activeElement.textContent")
            assert is_live or focused == "Cancel"
            assert "production" in str(walk.value("document.querySelector('header').innerText"))
            before = str(walk.value(state))
            walk.value(f"{{ {answers} new Response('x', {{status: 503}}); renew() }}")
            assert "error 503" in str(walk.value(state))
            assert f"This page is {before.split(maxsplit=1)[1]}." in str(walk.value(banner))
            assert walk.value("document.title") == f"(error 503) {title}"
            assert walk.value("getComputedStyle(document.querySelector('#banner p')).backgroundColor") == (
                "rgb(179, 38, 30)"
            )
            walk.value(f"{{ {answers} new Response('x', {{status: 401}}); renew() }}")
            assert "Your login has expired" in str(walk.value(banner))
            walk.value("{ window.fetch = kept; renew() }")
            assert str(walk.value(state)).startswith("serving")
            assert (walk.value(banner), walk.value("document.title")) == ("", title)
            if not is_live:
                assert walk.value(state) == before  # the content is as old as it was
    said = f"const look = () => {banner} ? done(true) : setTimeout(look, 20); look()"
    assert walk.value(f"new Promise((done) => {{ {said} }})")  # by itself
    assert str(walk.value(state)).startswith("no answer")
    assert "The connection to the broker is lost. This page is as of" in str(walk.value(banner))
    browser.open("about:blank")


@pytest.mark.backends("sqlite")
def test_shared_queues_are_looked_at_and_managed(url: str, tmp_path: Path, browser: Browser) -> None:
    browser.resize(*WIDE)
    with Claims(url, name="w-1") as claims, (tmp_path / "log").open("wb") as log:
        queue = claims.queue("ORDERS")
        queue.add(*(Message("x", group_id=key) for key in ("acme", "acme", "acme", "bolt")))
        queue.flow.share()
        first, second = queue.claim(2)
        with console_on(tmp_path, url, "--manage", stderr=log) as console:
            walk = Walk(browser, f"http://{console.api.address}/")
            walk.open("console")
            walk.click("Claims", "nav")
            assert "w-1" in walk.text
            walk.click("ORDERS", "tbody")
            _change_flow(walk, queue.flow)
            walk.click_in_row("w-1", "Release")
            assert "can be claimed again" in walk.confirm()
            assert "3 messages were removed" in walk.act("Purge")
            with pytest.raises(ClaimLost):
                queue.acknowledge(first)
            walk.resize(PHONE)
            walk.open("console/claims?name=ORDERS")
            walk.click("Limits", "main")
            walk.click("Claims", "nav")
            assert walk.value(HIDDEN) == []
            walk.click_in_row("w-1", "Release")
            assert "1 lease ended" in walk.confirm()
            with pytest.raises(ClaimLost):
                queue.acknowledge(second)
            assert walk.opened > 25
            browser.open("about:blank")


def _change_flow(walk: Walk, flow: QueueFlow) -> None:
    def shown(field: str) -> object:
        return walk.value(f"document.querySelector('main [name={field}]').value")

    assert "Claims are paused" in walk.act("Pause")
    assert flow.settings().paused
    assert "claimed again" in walk.act("Resume")
    assert "limits are set" in walk.act("Limits", claims="3", rate="0.5")
    found = flow.settings()
    assert (found.paused, found.claims, found.rate, found.burst) == (False, 3, 0.5, 1)
    walk.click("Limits", "main")
    assert [shown(field) for field in ("claims", "rate", "burst")] == ["3", "0.5", "1"]
    assert "limits are set" in walk.confirm(claims="", rate="", burst="")
    assert flow.settings().claims is None
    walk.click_in_row("bolt", "Pause")
    assert "Claims are paused" in walk.confirm()
    walk.click_in_row("bolt", "Limits")
    assert shown("weight") == "1"
    assert "limits are set" in walk.confirm(claims="2", weight="5")
    of_bolt = flow.key_settings()["bolt"]
    assert (of_bolt.paused, of_bolt.claims, of_bolt.weight) == (True, 2, 5)
    walk.click_in_row("bolt", "Resume")
    assert "claimed again" in walk.confirm()
    assert not flow.key_settings()["bolt"].paused


def _look(walk: Walk, console: ConsoleClient) -> None:
    walk.open("")
    assert "Unacknowledged" in walk.text
    assert "2 transactions are prepared" in walk.text
    renewed = "new Promise((done) => new MutationObserver(() => done(true)).observe(main, {childList: true}))"
    assert walk.value(f"{{ const main = document.getElementById('main'); {renewed} }}")
    wait_until(lambda: "<svg" in console.get("", span="10min").source, what="the first sample")
    walk.click("10 minutes", "main")
    assert walk.value("document.querySelectorAll('.chart').length") == 2
    press = "new KeyboardEvent('keydown', {key: 'ArrowLeft'})"
    walk.value(f"document.querySelector('.chart svg').dispatchEvent({press})")
    assert re.search(r" UTC: (in|messages) ", str(walk.value("document.querySelector('.hover').textContent")))
    for title in PAGES:
        walk.click(title, "nav")
        current = walk.value("document.querySelector('nav [aria-current]').firstChild.textContent")
        assert str(current).strip() == title
    walk.click("Queues", "nav")
    walk.click("Ready", "thead")
    assert walk.value("document.querySelector('[aria-sort]').ariaSort") == "descending"
    walk.fill(search="bus")
    walk.click("Find", "main")
    assert "BUSY" in walk.text
    assert "ActiveMQ.DLQ" not in walk.text
    walk.click("BUSY", "tbody")
    assert walk.value("document.querySelectorAll('.chart').length") in (0, 2)
    walk.click("Topics", "nav")
    walk.click("PRICES", "tbody")
    assert "board : all" in walk.text
    assert console.api.get("/api/broker")["condition"]["state"] == "serving"


def _change_messages(walk: Walk, console: ConsoleClient) -> None:
    api = console.api
    walk.click("Queues", "nav")
    walk.fill(name="WORK")
    walk.click("Send a message", "main")
    properties = "table:int=7"
    assert "sent" in walk.confirm(body="two pints", properties=properties)
    for number in range(3):
        assert "sent" in walk.act("Send", body=f"m{number}", properties=f"table:int={number}")
    walk.fill(selector="table = 7")
    walk.click("Find", "main")
    walk.click("ID:", "tbody")
    assert "two pints" in walk.text
    assert "TextMessage" in walk.text
    assert "1 message was replaced" in walk.act("Change", priority="9")
    assert "1 message was copied" in walk.act("Copy", selector="table = 7", to="COPIES")
    assert "1 message was moved" in walk.act("Move", selector="table = 0", to="MOVED")
    assert "1 message was removed" in walk.act("Remove some", selector="table = 1")
    assert "paused" in walk.act("Pause")
    assert "resumed" in walk.act("Resume")
    assert walk.value("document.querySelector('[name=selector]').value") == "table = 7"  # where one was
    walk.open("console/queue?name=WORK")
    walk.value("document.querySelector('[data-all]').click()")
    walk.click("Remove…", "main form")
    assert "2 messages were removed" in walk.confirm()
    assert "counters were reset" in walk.act("Reset counters")
    walk.click("Dead letters", "nav")
    walk.click("no reason given", "tbody")
    assert "Message 1 of 2" in walk.text
    walk.click("Dead letters", "nav")
    assert "2 messages were returned to the original destination" in walk.act("Retry")
    assert api.get(queue("WORK"))["size"] == 2
    walk.open("console/queue?name=WORK")
    assert "2 messages were removed" in walk.act("Purge")
    assert "WORK was deleted" in walk.act("Delete")
    assert api.ask("GET", queue("WORK"))[0] == 404


def _end_others(walk: Walk, console: ConsoleClient, subscriber: stomp.Connection12) -> None:
    walk.click("Transactions", "nav")
    assert "committed" in walk.act("Commit")
    assert "rolled back" in walk.act("Roll back")
    assert "There are no prepared transactions." in walk.text
    walk.click("Connections", "nav")
    walk.click_in_row("board", "Drop")
    assert "closed" in walk.confirm()
    wait_until(lambda: not subscriber.is_connected())
    wait_until(lambda: "offline" in console.get("/consumers").text)
    walk.click("Consumers", "nav")
    walk.click_in_row("board : all", "Delete")
    assert "deleted" in walk.confirm()


def _look_on_a_phone(walk: Walk) -> None:
    """Every page keeps to the width of a phone, also in the dark, and has a focus that can be seen."""
    walk.resize(PHONE)
    walk.darken()
    for title in PAGES:
        walk.click(title, "nav")
    for path in ("queue?name=BUSY", "do/send?name=BUSY", "do/move?name=BUSY", "queues?search=nothing"):
        walk.open(f"console/{path}")
    assert walk.value("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    walk.darken(dark=False)


@pytest.mark.backends("sqlite")
def test_every_page_is_for_everybody(url: str, browser: Browser) -> None:
    """By axe-core's rules of WCAG 2 AA, and by keyboard: each action is reached, and its focus is seen."""
    axe.axe()  # skipped before anything is started
    prepare(url)
    with (
        console_of(url, environment="production", environment_color="red", scheduler_support=True) as (
            console,
            port,
        ),
        load(port),
    ):
        walk = Walk(browser, f"http://{console.api.address}/")
        for number in range(2):
            console.api.post(queue("WORK", "messages"), body=f'{{"n": {number}}}', properties={"n": number})
        console.api.post(queue("PAUSED", "messages"), body="<a/>")
        later = {"AMQ_SCHEDULED_CRON": "0 3 * * 1"}
        console.api.post(queue("PAUSED", "messages"), body="later", properties=later)
        console.api.post(queue("PAUSED", "pause"))
        consumer = Client(port, acknowledges=False)
        consumer.connect()
        consumer.consume("/queue/WORK")
        [message] = console.api.get(queue("PAUSED", "messages"))
        of_message = {"name": "PAUSED", "id": message["message_id"]}
        connection = console.api.get("/api/connections")[0]["id"]
        paths = [
            *("", *(title.lower().replace(" ", "-") for title in PAGES[1:9]), "broker", "database"),
            *("configuration", "log", "queue?name=PAUSED", f"message?{urlencode(of_message)}"),
            *("do/send?name=WORK", "do/purge?name=PAUSED", "do/change?name=WORK"),
            f"do/drop?{urlencode({'connection': connection})}",
        ]
        wrong = [f"{path}: {one}" for path in paths for one in _for_everybody(walk, path)]
        assert not wrong, "\n".join(wrong)
        _keeps_the_focus(walk)
        consumer.close()
        browser.open("about:blank")


def _for_everybody(walk: Walk, path: str) -> Iterator[str]:
    """What is wrong with a page, in each width and each scheme."""
    walk.resize(WIDE)
    walk.open(f"console/{path}")
    yield from _by_keyboard(walk)
    yield from axe.violations(walk)
    for size, dark in itertools.product((LARGE, WIDE, PHONE), (False, True)):
        walk.resize(size)
        walk.darken(dark=dark)
        where = f"{size[0]} pixels, {'dark' if dark else 'light'}"
        yield from (f"{where}: {one}" for one in axe.violations(walk, *OF_COLORS, *OF_SIZES))
        if walk.value("document.documentElement.scrollWidth > innerWidth"):
            yield f"{where}: wider than the window"
    hidden = walk.value(HIDDEN)
    assert isinstance(hidden, list)
    yield from (f"not seen on a phone: {one}" for one in hidden)
    walk.darken(dark=False)


def _by_keyboard(walk: Walk) -> list[str]:
    """What the Tab key does not reach on a page, and whose focus cannot be seen."""
    said = "(one) => one.outerHTML.slice(0, 200)"
    walk.value("""{
        if (live) live.checked = false;
        const any = "a[href], button, input, select, textarea, summary, [tabindex='0']";
        window.wanted = [...document.querySelectorAll(any)]
            .filter((one) => one.checkVisibility() && one.type !== "hidden" && !one.disabled);
        window.reached = new Set();
        window.unseen = [];
        document.addEventListener("focusin", ({ target }) => {
            reached.add(target);
            const style = getComputedStyle(target);
            if (style.outlineStyle === "none" || !parseFloat(style.outlineWidth)) unseen.push(target);
        });
        document.activeElement.blur();
    }""")
    walk.press("Tab", 9, int(str(walk.value("wanted.length"))) + 1)
    walk.value("document.activeElement.blur()")
    missed = walk.value(f"wanted.filter((one) => !reached.has(one)).map({said})")
    unseen = walk.value(f"unseen.map({said})")
    assert isinstance(missed, list)
    assert isinstance(unseen, list)
    return [f"not reached: {one}" for one in missed] + [f"not seen: {one}" for one in unseen]


def _keeps_the_focus(walk: Walk) -> None:
    """An operation has the focus on what is harmless, and gives it back."""
    focused = "document.activeElement.textContent.trim()"
    walk.resize(WIDE)
    walk.open("console/queue?name=PAUSED")
    for link in ("Purge", "Resume", "Delete"):
        walk.value(
            "[...document.querySelectorAll('main a')]"
            f".find((one) => one.textContent.startsWith('{link}')).focus()"
        )
        walk.follow_by_enter()
        assert walk.value(focused) == "Cancel"
        walk.follow_by_enter()
        assert str(walk.value(focused)).startswith(link)
