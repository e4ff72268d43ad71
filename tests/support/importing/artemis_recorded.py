"""What a real Artemis has stored for ``tests/fixtures/artemis``, and what should be left of it."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.interop.messages import specified

Json = dict[str, Any]


def unpack(kind: str, folder: Path) -> list[Json]:
    """Unpack files or tables below a folder; returns the steps that the broker did."""
    with tarfile.open(ROOT / "tests" / "fixtures" / "artemis" / f"{kind}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    steps: list[Json] = json.loads((folder / "steps.json").read_text())
    return steps


class Expected:
    """The messages that should be left in queues and subscriptions: (specification, facts) of each."""

    def __init__(self, steps: list[Json]) -> None:
        self.queues: dict[str, list[tuple[Json, Json]]] = defaultdict(list)
        self.subscriptions: dict[tuple[str, str, str], list[tuple[Json, Json]]] = {}
        self.selectors: dict[tuple[str, str, str], str | None] = {}
        self.in_doubt: dict[str, Json] = {}
        for each in steps:
            self._do(each["step"], each["result"])

    def _do(self, step: Json, result: Any) -> None:
        if step["op"] == "prepare" and "transaction" not in step:
            self.in_doubt[step["xid"]] = result
            return
        if step["op"] == "stomp" or step.get("transaction") == "rollback" or "delay_ms" in step:
            return
        name = step["destination"]
        sent = result["sent"] if step["op"] == "prepare" else result if step["op"] == "send" else []
        for spec, facts in zip(step.get("messages", []), sent, strict=True):
            if spec.get("persistent", True) and "AMQ_SCHEDULED_DELAY" not in spec["properties"]:
                self._send(name, spec, facts)
        if step["op"] == "receive":
            self._receive(step, name)

    def _send(self, name: str, spec: Json, facts: Json) -> None:
        if name.startswith("queue://"):
            self.queues[name].append((spec, facts))
        for (topic, *_), left in self.subscriptions.items():
            if topic == name or (topic == "topic://WILD.#" and name.startswith("topic://WILD.")):
                left.append((spec, facts))

    def _receive(self, step: Json, name: str) -> None:
        if name.startswith("queue://"):
            del self.queues[name][: step["count"]]
            return
        if "name" not in step:
            return
        key = name, step["client_id"], step["name"]
        left = self.subscriptions.setdefault(key, [])
        selector = self.selectors.setdefault(key, step.get("selector"))
        for _ in range(step["count"]):
            at = next(at for at, (spec, _) in enumerate(left) if wants(selector, spec))
            del left[at]


def wants(selector: str | None, spec: Json) -> bool:
    """Return whether a selector of a recorded subscription, ``n > NUMBER``, matches."""
    return selector is None or spec["properties"]["n"]["v"] > int(selector.rpartition(" ")[2])


def comparable(spec: Json, facts: Json, *, by_openwire: bool = False) -> Json:
    """What should be said of a message.

    :param by_openwire: whether OpenWire's client sent it: of a map's strings and of properties Artemis itself
        stores two replacement characters for one beyond the 16 bits of Java's
    """
    wanted = {**specified(spec), **facts}
    if by_openwire:
        wanted["properties"] = _replaced(wanted["properties"])
        if wanted["kind"] == "map":
            wanted["body"] = _replaced(wanted["body"])
    return wanted


def _replaced(typed: Any) -> Any:
    if isinstance(typed, dict):
        return {name: _replaced(value) for name, value in typed.items()}
    if isinstance(typed, str):
        return "".join(char if ord(char) < 0x10000 else "\ufffd\ufffd" for char in typed)
    return typed
