"""Variants of the store, with other names, types and statements, on which contract cases run again."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.statements import ACTIVEMQ_STATEMENTS


@dataclass(frozen=True)
class Variant:
    """Options that every store of a test is opened with, and the names that its tables have then."""

    id: str
    options: Mapping[str, Any]
    names: Mapping[str, str] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    """What is run with it, unless a case says otherwise: where it makes a difference."""
    journaled: bool = False
    """A journal is in front: what is stored is not in the tables at once, and one store has the directory."""
    journal: Mapping[str, Any] = field(default_factory=dict)
    """Options of that journal."""
    streamed: bool = False
    """That journal is in a stream of a private nats-server."""
    filtered: bool = False
    """The store is one of three that are as one: topics have a journal, and OTHER.> is in memory."""

    @property
    def plain(self) -> bool:
        """The store is the database's own, and nothing is in front of it."""
        return not (self.journaled or self.filtered)

    def spell(self, sql: str) -> str:
        """The test's SQL, with these names."""
        if not self.names:
            return sql
        return re.sub(
            "|".join(self.names), lambda found: self.names[found[0].upper()], sql, flags=re.IGNORECASE
        )


PLAIN = Variant("plain", {})
"""Everything as it is by default."""

_TABLES = (
    "ACTIVEMQ_MSGS",
    "ACTIVEMQ_ACKS",
    "ACTIVEMQ_LOCK",
    "JDBCSTORE_ACKS",
    "JDBCSTORE_STATE",
    "JDBCSTORE_VERSION",
)
_RENAMED = {
    "message_table_name": "MESSAGES",
    "durable_sub_acks_table_name": "SUBS",
    "lock_table_name": "MASTER",
}
_EVERY_STATEMENT = frozenset(
    {"acknowledgement", "audit", "destinations", "expiry", "paging", "priority", "queue", "topic"}
    | {"transaction", "xa"}
)

RENAMED = Variant(
    "renamed",
    {"table_prefix": "MQ_", **_RENAMED},
    {name: f"MQ_{new}" for name, new in zip(_TABLES, (*_RENAMED.values(), *_TABLES[3:]), strict=True)},
    _EVERY_STATEMENT,
)
STATEMENTS = Variant("statements", {"statements": ACTIVEMQ_STATEMENTS}, modules=_EVERY_STATEMENT)
TYPES = Variant(
    "types",
    {"string_id_data_type": "VARCHAR(128)", "binary_data_type": "MEDIUMBLOB"},
    modules=frozenset({"opening", "queue", "topic", "types", "xa"}),
)

_CONTRACT = _EVERY_STATEMENT | {"cancelling", "closing", "concurrency", "restart", "state_machine"}
JOURNALED = Variant("journaled", {}, modules=_CONTRACT, journaled=True)
JOURNALED_SERVER = replace(
    JOURNALED, modules=frozenset({"acknowledgement", "priority", "queue", "topic", "transaction", "xa"})
)
"""Over a server: what of it the server answers."""
QUICK = replace(
    JOURNALED,
    id="quick",
    journal={
        "use_quick_journal": True,
        "journal_log_file_size": 4096,
        "checkpoint_size": 1,
        "max_checkpoint_message_add_size": 2_000,
    },
)
"""The tables have references, and each write has a checkpoint made that moves some messages to them."""

STREAMED = replace(
    JOURNALED, id="streamed", streamed=True, journal={"journal_disk_sync_strategy": "always", "replicas": 1}
)
"""Its log is in a stream of a nats-server."""

FILTERED_VARIANT = Variant("filtered", {}, modules=JOURNALED_SERVER.modules | {"paging"}, filtered=True)
FILTERED_TOPICS = Variant("filtered-topics", {}, filtered=True)
"""With its topics in the database, and none in the journal but OTHER.>: for the cases that look for them
there, and are run without the other."""

LOCK_FREE = Variant(
    "lock-free",
    {"adapter": "tests.support.lock_free:LockFreeAdapter"},
    modules=_CONTRACT | {"batches", "damage", "large", "types"},
)
"""Without what some engines and poolers that speak PostgreSQL's protocol do not have."""

VARIANTS = {
    "memory": (JOURNALED,),
    "sqlite": (RENAMED, STATEMENTS, JOURNALED, FILTERED_VARIANT),
    "postgresql": (STATEMENTS, JOURNALED_SERVER, LOCK_FREE),
    "mariadb": (TYPES, JOURNALED_SERVER),
    "mariadb-pyodbc": (JOURNALED_SERVER,),
    "mysql": (JOURNALED_SERVER,),
}
"""By backend. Names, types and statements are made into SQL in one place for all, so one database is
enough for each; two for the statements, because PostgreSQL has a bulk path that they bypass."""

CHOICE = os.environ.get("JDBCSTORE_TEST_VARIANTS", "")
CHOICES = ("whole", STREAMED.id)
WHOLE = CHOICE in CHOICES
"""Every case runs with a journal in front, and in one store of several, on every backend; or with a journal
in a stream, in front of memory and of SQLite."""


def variants_of(backend: str) -> tuple[Variant, ...]:
    """What a backend is run with, beside the plain store."""
    if STREAMED.id == CHOICE:
        return (STREAMED,) if backend in ("memory", "sqlite") else ()
    if not WHOLE:
        return VARIANTS.get(backend, ())
    if backend == "memory":
        return (JOURNALED, QUICK)
    return (JOURNALED, QUICK, FILTERED_VARIANT, FILTERED_TOPICS)
