"""Brokers of old versions of ActiveMQ, with stores in files that newer ones do not have.

Their jars are those that ``.ci/maven`` copies: ``.ci/maven .build/activemq/leveldb-5.16.7
tests/interop/leveldb.xml``, with ``-Dactivemq.version=5.9.1`` those of another version, and ``...
.build/activemq/amq-5.7.0 tests/interop/amq.xml``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.interop.activemq import SOURCES, Broker, Peer, PeerMissing
from tests.support.jvm import QUICK, compiled
from tests.support.maven import why_missing

ADAPTERS = {
    "leveldb": "org.apache.activemq.leveldb.LevelDBStore",
    "amq": "org.apache.activemq.store.amq.AMQPersistenceAdapter",
}
_BROKER = ROOT / "tests" / "interop" / "olds" / "EmbeddedBroker.java"
_IN_MODIFIED_UTF8 = (
    "new java.io.DataInputStream(new java.io.ByteArrayInputStream("
    "java.nio.ByteBuffer.allocate(bytes.length + 2).putShort((short) bytes.length).put(bytes).array()"
    ")).readUTF()"
)
_WITHOUT_CONVERSION = (
    (
        "MarshallingSupport.convertUTF8WithBuf(bytes, new char[bytes.length], 0, bytes.length)",
        _IN_MODIFIED_UTF8,
    ),
)
_WITHOUT_BUFFERS = (
    ("org.fusesource.hawtbuf.UTF8Buffer", "java.io.StringReader"),
    ("UTF8Buffer buffer", "Object buffer"),
    ("(UTF8Buffer) value", "value"),
    ("UTF8Buffer", "StringReader"),
    ("buffer.toByteArray()", "new byte[0]"),
)
"""What the programs use that old versions do not have, and something in its place."""
_OPENED = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "sun.nio.ch", "jdk.internal.ref")
)
"""What LevelDB in Java 8 has to reach in a later one to free what it has mapped."""


@cache
def _classes(jars: str, version: tuple[int, ...]) -> str:
    originals = [*(path for path in SOURCES.glob("*.java") if path.name != _BROKER.name), _BROKER]
    changes = (*_WITHOUT_CONVERSION,) if version < (5, 10) else ()
    texts = {}
    for original in originals:
        text = original.read_text()
        for new, old in (*changes, *(_WITHOUT_BUFFERS if version < (5, 4) else ())):
            text = text.replace(new, old)
        texts[original.name] = text
    return str(compiled(texts, jars))


class OldPeer(Peer):
    """A JVM with an old ActiveMQ.

    :param kind: ``leveldb`` or ``amq``
    :raises PeerMissing: its jars are not there
    """

    def __init__(self, kind: str, version: str, **more: Any) -> None:
        self.kind = kind
        self._version = version
        more.setdefault("jvm_options", (*QUICK, "-Xmx1g"))
        more["jvm_options"] = (*more["jvm_options"], *_OPENED)
        super().__init__(**more)

    def program(self) -> tuple[str, str]:
        folder = ROOT / ".build" / "activemq" / f"{self.kind}-{self._version}"
        if not folder.is_dir():
            raise PeerMissing(f"{folder} has no jars: {why_missing(folder)}")
        jars = f"{folder}/*"
        return _classes(jars, tuple(map(int, self._version.split(".")))), jars

    def old_broker(self, directory: Path, **settings: Any) -> Broker:
        """Start a broker with its store in a directory; ``settings`` are those of the persistence adapter."""
        started = self.call("start", adapter=ADAPTERS[self.kind], directory=str(directory), settings=settings)
        return Broker(self, started["stomp_port"], started["openwire_url"])
