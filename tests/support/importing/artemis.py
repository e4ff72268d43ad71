"""Records what a real Artemis 2.44.0 stores, for ``tests/fixtures/artemis``.

``python -m tests.support.importing.artemis files QPID`` records a journal, ``... tables QPID`` the tables of
a PostgreSQL of its own, which become those of an SQLite file. QPID is the jar
``org.apache.qpid:qpid-jms-client:1.13.0`` from Maven's central repository, a client of AMQP, which only this
program needs. The broker is killed at the end.
"""

from __future__ import annotations

import json
import lzma
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from string import Template
from typing import Any, Self
from xml.sax.saxutils import escape

from tests.support import ROOT
from tests.support.databases import Database
from tests.support.interop import artemis
from tests.support.interop.messages import BODIES, HEADERS, LONG_TEXT, VALUES, spec, text
from tests.support.jvm import compiled
from tests.support.servers.alone import opened
from tests.support.stomp import Wire

FIXTURES = ROOT / "tests" / "fixtures" / "artemis"
DAY = 86_400_000
JSON_JARS = tuple(Path(f"/usr/share/java/jackson-{name}.jar") for name in ("core", "databind", "annotations"))
Json = dict[str, Any]

_PROPERTIES = {name: value for name, value in VALUES.items() if name not in ("char", "half_a_pair", "null")}
_SHORT = text(LONG_TEXT[:3000])
_BODIES = {
    **{name: body for name, body in BODIES.items() if name not in ("map-nested", "text-long", "bytes-long")},
    "text-long": _SHORT,
    "object": spec("object", "serialised"),
}
CORE = {**_BODIES, **HEADERS, "properties": text("all types", properties=_PROPERTIES)}
del CORE["properties-nested"]
AMQP = {name: message for name, message in CORE.items() if name not in ("text-odd", "group-close")}
STOMP: dict[str, tuple[dict[str, str], bytes]] = {
    "text": ({}, "zażółć \U0001f600".encode()),
    "bytes": ({"content-length": "4"}, b"\0\1\xfe\xff"),
    "headers": (
        {
            "correlation-id": "corr", "reply-to": "/queue/REPLY", "type": "a.type", "priority": "7",
            "own": "value", "JMSXGroupID": "g", "expires": "4102444800000", "content-type": "text/plain",
        },
        b"headers",
    ),
}  # fmt: skip


def numbered(prefix: str, count: int, **headers: Any) -> list[Json]:
    return [text(f"{prefix} {n}", properties={"n": n}, **headers) for n in range(count)]


def steps() -> Iterable[Json]:
    """What is done, in this order."""
    core, openwire, amqp = ({"client": name} for name in ("core", "openwire", "amqp"))
    subscribe: Json = {"op": "receive", "count": 0}
    yield {**core, **subscribe, "destination": "topic://NEWS", "client_id": "a", "name": "all"}
    yield {
        **openwire,
        **subscribe,
        "destination": "topic://NEWS",
        "client_id": "b.c",
        "name": "some.x",
        "selector": "n > 5",
    }
    yield {**core, **subscribe, "destination": "topic://NEWS", "client_id": "d", "name": "doubt"}
    yield {**core, **subscribe, "destination": "topic://NEWS", "shared": "shared"}
    yield {**amqp, **subscribe, "destination": "topic://NEWS", "client_id": "e", "name": "amqp"}
    yield {**core, **subscribe, "destination": "topic://WILD.#", "client_id": "w", "name": "wild"}
    for client, kinds in ((core, CORE), (openwire, CORE), (amqp, AMQP)):
        name = client["client"].upper()
        yield {**client, "op": "send", "destination": f"queue://{name}", "messages": [*kinds.values()]}
    yield {"op": "stomp", "destination": "/queue/STOMP"}
    yield {**core, "op": "send", "destination": "queue://HALF", "messages": numbered("half", 30)}
    yield {**core, "op": "receive", "destination": "queue://HALF", "count": 10}
    yield {**amqp, "op": "receive", "destination": "queue://HALF", "count": 2}
    yield {**openwire, "op": "receive", "destination": "queue://HALF", "count": 3, "transaction": "commit"}
    yield {**core, "op": "receive", "destination": "queue://HALF", "count": 3, "transaction": "rollback"}
    yield {
        **core,
        "op": "send",
        "destination": "queue://HALF",
        "messages": [text("committed")],
        "transaction": "commit",
    }
    yield {
        **core,
        "op": "send",
        "destination": "queue://HALF",
        "messages": [text("never")],
        "transaction": "rollback",
    }
    yield {**core, "op": "send", "destination": "queue://HALF", "messages": [text("lost", persistent=False)]}
    yield {**core, "op": "send", "destination": "queue://DEAD", "messages": [text("dead")]}
    for _ in range(3):
        yield {**core, "op": "receive", "destination": "queue://DEAD", "count": 1, "transaction": "rollback"}
    yield {**core, "op": "send", "destination": "topic://NEWS", "messages": numbered("news", 12)}
    yield {**core, "op": "send", "destination": "topic://WILD.A", "messages": numbered("wild a", 2)}
    yield {**core, "op": "send", "destination": "topic://WILD.B", "messages": numbered("wild b", 2)}
    yield {**core, "op": "send", "destination": "topic://SPLIT", "messages": numbered("split", 2)}
    yield {
        **core,
        "op": "receive",
        "destination": "topic://NEWS",
        "client_id": "a",
        "name": "all",
        "count": 4,
    }
    yield {
        **openwire, "op": "receive", "destination": "topic://NEWS", "client_id": "b.c", "name": "some.x",
        "selector": "n > 5", "count": 2,
    }  # fmt: skip
    yield {
        **core,
        "op": "send",
        "destination": "queue://RANKED",
        "messages": [text(f"r {n}", priority=n) for n in range(10)],
    }
    yield {
        **core,
        "op": "send",
        "destination": "queue://TIMED",
        "messages": [text("years", ttl_ms=3650 * DAY)],
    }
    later = text("later", properties={"AMQ_SCHEDULED_DELAY": 3650 * DAY})
    yield {
        **core,
        "op": "send",
        "destination": "queue://LATER",
        "messages": [text("core")],
        "delay_ms": 3650 * DAY,
    }
    yield {**openwire, "op": "send", "destination": "queue://LATER", "messages": [later]}
    yield {
        **amqp,
        "op": "send",
        "destination": "queue://LATER",
        "messages": [text("amqp")],
        "delay_ms": 3650 * DAY,
    }
    yield {**core, "op": "send", "destination": "queue://DOUBT", "messages": numbered("doubt", 5)}
    new = {"messages": [text("new 1"), text("new 2")]}
    yield {**core, "op": "prepare", "xid": "queue", "destination": "queue://DOUBT", "count": 2, **new}
    yield {**openwire, "op": "prepare", "xid": "openwire", "destination": "queue://DOUBT2", **new}
    yield {
        **core, "op": "prepare", "xid": "topic", "destination": "topic://NEWS", "client_id": "d",
        "name": "doubt", "count": 3, "messages": [],
    }  # fmt: skip
    yield {
        **core,
        "op": "prepare",
        "xid": "committed",
        "destination": "queue://MOVED",
        "transaction": "commit",
        **new,
    }
    yield {
        **core,
        "op": "prepare",
        "xid": "rolled back",
        "destination": "queue://MOVED",
        "transaction": "rollback",
        **new,
    }
    big = [spec("bytes", bytes(range(256)) * 100, properties={"n": 1}), text(LONG_TEXT[:20_000])]
    yield {**core, "op": "send", "destination": "queue://LARGE", "messages": big, "large": 10_000}
    yield {
        **core,
        "op": "send",
        "destination": "queue://LARGE",
        "messages": big,
        "large": 1000,
        "compress": True,
    }
    yield {**amqp, "op": "send", "destination": "queue://LARGE", "messages": big}
    yield {**core, "op": "send", "destination": "queue://LARGE", "messages": big, "large": 10_000}
    yield {**core, "op": "receive", "destination": "queue://LARGE", "count": 1}
    page = [text(f"page {n} " + "x" * 300, properties={"n": n}) for n in range(40)]
    yield {**core, "op": "send", "destination": "queue://PAGED.Q", "messages": page}
    yield {**core, "op": "receive", "destination": "queue://PAGED.Q", "count": 17}
    yield {
        **core,
        "op": "send",
        "destination": "queue://PAGED.Q",
        "messages": page[:5],
        "transaction": "commit",
    }
    yield {
        **core,
        "op": "send",
        "destination": "queue://PAGED.Q",
        "messages": page[:5],
        "transaction": "rollback",
    }
    yield {**core, "op": "send", "destination": "queue://PAGED.Q", "messages": big, "large": 10_000}
    yield {**amqp, "op": "send", "destination": "queue://PAGED.Q", "messages": page[:2]}
    yield {**core, **subscribe, "destination": "topic://PAGED.T", "client_id": "p", "name": "one"}
    yield {
        **core,
        **subscribe,
        "destination": "topic://PAGED.T",
        "client_id": "p",
        "name": "two",
        "selector": "n > 30",
    }
    yield {**core, "op": "send", "destination": "topic://PAGED.T", "messages": page}
    yield {
        **core,
        "op": "receive",
        "destination": "topic://PAGED.T",
        "client_id": "p",
        "name": "one",
        "count": 12,
    }
    fill = [text("fill " + "y" * 2000) for _ in range(60)]
    for _ in range(2):
        yield {**core, "op": "send", "destination": "queue://FILL", "messages": fill}
        yield {**core, "op": "receive", "destination": "queue://FILL", "count": 60}


class Recorder:
    """The broker, and clients in its process."""

    def __init__(self, folder: Path, qpid: Path, store: str = "") -> None:
        configuration = folder / "broker.xml"
        template = Template((artemis.HOME / "recorded.xml").read_text())
        values = {"directory": folder / "data", "store": store, "file_size": 102_400, "compact": 3}
        configuration.write_text(template.substitute(values))
        jars = ":".join([artemis.classpath(), str(qpid), *map(str, JSON_JARS)])
        sources = [artemis.HOME / "Recorder.java", ROOT / "tests" / "interop" / "peer" / "Values.java"]
        classes = compiled({source.name: source.read_text() for source in sources}, jars)
        log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                "java",
                "-cp",
                f"{classes}:{jars}",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "Recorder",
                configuration,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            text=True,
        )
        self.port = int(self._answer()["port"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the recorder ended; see its log")
        return json.loads(line)

    def run(self, step: Json) -> Any:
        if step["op"] == "stomp":
            return self._stomp(step["destination"])
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _stomp(self, destination: str) -> None:
        with Wire(self.port) as wire:
            wire.connect()
            for name, (headers, body) in STOMP.items():
                sent = {"destination": destination, "persistent": "true", "receipt": name, **headers}
                wire.write("SEND", sent, body)
                assert wire.read().command == "RECEIPT"
            sent = {"destination": "/queue/LATER", "persistent": "true", "receipt": "later"}
            wire.write("SEND", {**sent, "AMQ_SCHEDULED_TIME": "4102444800000"}, b"stomp")
            assert wire.read().command == "RECEIPT"


def record(folder: Path, qpid: Path, store: str = "") -> list[Json]:
    """Have a broker do all steps, kill it, and return the steps with what each gave."""
    with Recorder(folder, qpid, store) as recorder:
        return [{"step": step, "result": recorder.run(step)} for step in steps()]


def pack(base: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    with lzma.open(target, "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in sorted(base.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(base))
    sys.stdout.write(f"{target} {target.stat().st_size}\n")


def main() -> None:
    """Record files or tables."""
    kind, qpid = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as work:
        folder, base = Path(work, "broker"), Path(work, "packed")
        folder.mkdir()
        base.mkdir()
        try:
            if kind == "files":
                done = record(folder, qpid)
                shutil.copytree(folder / "data", base / "data")
            else:
                with opened("postgresql") as database:
                    done = record(folder, qpid, _store(database))
                    dump(database, base / "artemis.db")
        except BaseException:
            sys.stderr.write((folder / "log").read_text()[-4000:])
            raise
        (base / "steps.json").write_text(json.dumps(done))
        pack(base, FIXTURES / f"{kind}.tar.xz")


def _store(database: Database) -> str:
    values = {
        "jdbc-driver-class-name": "org.postgresql.Driver",
        "jdbc-connection-url": database.jdbc_url,
        "jdbc-user": database.username or "",
        "jdbc-password": database.password or "",
        **{f"{what}-table-name": name for what, name in artemis.TABLES.items()},
    }
    settings = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items() if value)
    return f"<store><database-store>{settings}</database-store></store>"


def dump(database: Database, target: Path) -> None:
    """Copy all tables of a PostgreSQL to an SQLite file; its large objects become values."""
    found = database.rows(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
        " ORDER BY table_name, ordinal_position"
    )
    tables: dict[str, list[str]] = {}
    for table, column in found:
        tables.setdefault(table, []).append(column)
    with closing(sqlite3.connect(target)) as copy:
        for table, columns in tables.items():
            wanted = ", ".join("lo_get(data)" if column == "data" else column for column in columns)
            rows = database.rows(f"SELECT {wanted} FROM {table}")
            copy.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            copy.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        copy.commit()


if __name__ == "__main__":
    main()
