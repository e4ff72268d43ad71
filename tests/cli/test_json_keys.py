"""``docs/cli-json.csv`` lists the keys that the commands print with ``--json``."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jdbcstore import JdbcStore, Message
from jdbcstore.cli.app import commands
from tests.cli.conftest import Invoke
from tests.support import ROOT

OPEN = {"tables", "figures", "properties", "rows", "others", "left", "right"}
"""Keys whose values have keys of their own that depend on the data."""
COMMANDS = (
    "init",
    "status",
    "subscribe topic://T --client-id c --subscription s",
    "subscriptions",
    "send Q hello",
    "browse Q",
    "consume Q",
    "purge Q",
    "cleanup",
    "dlq list",
    "dlq purge --all",
    "flow limit Q --claims 3",
    "flow list",
    "flow pause Q --key K",
    "flow key Q K --weight 2",
    "flow purge Q",
    "outbox create",
    "outbox status",
    "outbox drop",
    "xa list",
    "schema current",
    "schema check",
    "schema history",
    "lock",
    "config show",
    "unsubscribe topic://T --client-id c --subscription s",
)


@pytest.fixture(scope="module")
def listed() -> dict[str, set[str]]:
    keys = defaultdict(set)
    with (ROOT / "docs" / "cli-json.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            keys[row["command"]].add(row["key"])
    return keys


def _keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the keys, as the list writes them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            yield place
            if key not in OPEN:
                yield from _keys(inner, place)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, f"{path}[]")


def _is_listed(key: str, keys: set[str]) -> bool:
    """Whether a key, or the object that it is in, is in the list, or an object whose keys are."""
    return any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in keys) or any(
        one.startswith((f"{key}.", f"{key}[")) for one in keys
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_printed_keys_are_listed(
    command: str, invoke: Invoke, local_store: Callable[[], JdbcStore], listed: dict[str, set[str]]
) -> None:
    with local_store() as store:
        store.topic("T").add_message(Message("news"))
        store.queue("Q").add_message(Message("two pints", properties={"table": 7}))
        store.queue("ActiveMQ.DLQ").add_message(Message("old"))
    if command.startswith("outbox"):
        invoke("outbox", "create")
    if command.startswith("unsubscribe"):
        invoke("subscribe", "topic://T", "--client-id", "c", "--subscription", "s")
    words = command.split()
    name = max((one for one in listed if command.startswith(one)), key=len)
    result = invoke(*words, "--json")
    keys = {key for line in result.out.splitlines() for key in _keys(json.loads(line))}
    known = listed["flow list"] if name in ("flow limit", "flow pause") else listed[name]
    if name == "flow pause":
        known = known | {"key"}

    assert result.code == 0, result.err
    assert [key for key in sorted(keys) if not _is_listed(key, known)] == []


def test_each_listed_command_exists(listed: dict[str, set[str]]) -> None:
    assert {name.split()[0] for name in listed} <= {*commands.commands}
