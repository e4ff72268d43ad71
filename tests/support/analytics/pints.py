"""Forty messages, questions of them, and the answers that the rows and the codec alone give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jdbcstore
from jdbcstore import Message
from jdbcstore.message import openwire
from tests.support.databases import Database

QUESTIONS = (
    "SELECT destination, count(*) FROM messages GROUP BY destination ORDER BY destination",
    "SELECT sum(properties['n'].long), count(DISTINCT body_text), count(error) FROM messages_decoded",
    "SELECT id, destination FROM messages ORDER BY id DESC LIMIT 2",
    "SELECT id, body_text FROM messages_decoded WHERE properties['n'].long % 3 = 1 ORDER BY id",
    "SELECT priority, type, max(message_size) FROM messages_decoded GROUP BY ALL ORDER BY ALL",
    "SELECT destination, depth, bytes FROM destinations ORDER BY destination",
)


def plain(database: Database) -> list[list[list[Any]]]:
    """The answers, of the rows and the codec alone."""
    stored = database.rows("SELECT ID, CONTAINER, PRIORITY, MSG FROM ACTIVEMQ_MSGS ORDER BY ID")
    rows = [
        (id_, name, priority, bytes(msg), openwire.decode(bytes(msg))) for id_, name, priority, msg in stored
    ]
    depths = Counter(name for _, name, *_ in rows)
    sizes = Counter[str]()
    largest: dict[tuple[int, str], int] = {}
    for _, name, priority, msg, message in rows:
        sizes[name] += len(msg)
        key = (priority, str(message.body_type))
        largest[key] = max(len(msg), largest.get(key, 0))
    numbers = [int(message.properties["n"]) for *_, message in rows]  # type: ignore[arg-type]
    texts = {id_: message.body if isinstance(message.body, str) else None for id_, *_, message in rows}
    return [
        [[name, depths[name]] for name in sorted(depths)],
        [[sum(numbers), len({*texts.values()} - {None}), 0]],
        [[id_, name] for id_, name, *_ in rows[:-3:-1]],
        [[id_, texts[id_]] for (id_, *_), n in zip(rows, numbers, strict=True) if n % 3 == 1],
        [[*key, largest[key]] for key in sorted(largest)],
        [[name, depths[name], sizes[name]] for name in sorted(depths)],
    ]


def fill(database: Database, count: int = 40) -> None:
    with jdbcstore.open(database.url, cleanup_period=0.0) as store:
        for n in range(count):
            body = f"{n} pints 🍺" if n % 5 else n.to_bytes(4, "big")
            queue = store.queue("FEW" if n % 4 == 3 else "MANY")
            queue.add_message(Message(body, properties={"n": n}))
