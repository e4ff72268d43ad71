"""Members: the brokers that follow one stream, and their messages to each other: roles, positions, copies."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from nats.js.api import ObjectMeta, ObjectMetaOptions
from nats.js.errors import NotFoundError

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.journal.stream.keys import Key, StreamKeys
from jdbcstore.journal.stream.log import contents_of
from jdbcstore.journal.stream.objects import StreamObjects
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.util.stream_health import StreamMember

MASTER, FOLLOWER = "master", "follower"
_FORGOTTEN = 86_400.0
"""Seconds after which a broker that says nothing is forgotten, and the stream keeps nothing for it."""
_ALIVE = 10.0
"""Seconds for which a broker is taken to be alive after it has said something."""
_CHUNK = 128 * 1024


@dataclass(frozen=True, slots=True)
class Member:
    """One broker, as it has described itself last."""

    node: str
    """Its name among the others."""
    role: str
    """``master`` or ``follower``."""
    applied: int = 0
    """The last record that its database has."""
    seen: int = 0
    """The last record that it has read."""
    is_complete: bool = False
    """Whether it had read the stream up to its end, and may become the master."""
    weight: int = 1
    """Its weight in the choice of a master."""
    wants: str = ""
    """The name of the copy that it waits for, or is taking; empty if it needs none."""
    fetched: int = 0
    """The percentage of that copy that it has."""
    trouble: str = ""
    """Why it does not follow now; empty if it does."""
    place: str = ""
    """The database and the process that it is, for people."""
    life: str = ""
    """The difference from another process of the same name; empty once it was closed."""
    silent: float = 0.0
    """Seconds since it has said something, by the servers' clocks."""

    @property
    def is_alive(self) -> bool:
        """Whether it has said something lately."""
        return self.silent < _ALIVE


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """The brokers of one stream, and its end."""

    last_record: int
    """The last record in the stream."""
    first_record: int
    """The first record that the stream still has."""
    members: tuple[Member, ...]
    """The brokers that have said something in the last day, by name."""

    def lag(self, member: Member) -> int:
        """Return how many records a broker's database does not have yet."""
        return max(self.last_record - member.applied, 0)

    @property
    def described(self) -> tuple[StreamMember, ...]:
        """The brokers, for an administrator."""
        return tuple(
            StreamMember(
                name=member.node,
                role=member.role,
                applied=member.applied,
                lag=self.lag(member),
                silent=member.silent,
                is_alive=member.is_alive,
                trouble=member.trouble,
            )
            for member in self.members
        )


class DamagedCopy(StoreError):
    """A copy of a database that is not as it was stored."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a database, in an object store."""

    name: str
    applied: int
    """The last record that it has."""
    size: int
    """Bytes."""


class Members:
    """The brokers of a stream, as keys and objects beside it. Thread-safe.

    Each method raises :class:`StoreUnavailable` if the servers do not answer.
    """

    def __init__(self, server: StreamServer) -> None:
        self._server = server
        self._keys = StreamKeys(server.connection, f"{server.name}-members", server.replicas, _FORGOTTEN)
        described = "copies of the database of the master, on their way to another broker"
        # With an end, because no other process would remove the copy of a killed taker.
        self._copies = StreamObjects(server, "copies", described, _FORGOTTEN)

    def report(self, member: Member) -> None:
        """Publish the status of a broker."""
        facts = asdict(replace(member, silent=0.0))
        self._keys.put(f"member.{member.node}", json.dumps(facts).encode())

    def every(self) -> list[Member]:
        """Return the brokers that have said something in the last day, by name."""
        keys = self._keys.every()
        newest = max((key.changed for key in keys.values()), default=None)
        members = []
        for name, key in sorted(keys.items()):
            if name.startswith("member.") and newest is not None:
                members.append(_member(key, (newest - key.changed).total_seconds()))
        return [member for member in members if member is not None]

    def find(self, node: str) -> tuple[int, Member] | None:
        """Return the number of a broker's last report, and the report; None without one."""
        key = self._keys.get(f"member.{node}")
        said = None if key is None else _member(key, 0.0)
        return None if key is None or said is None else (key.revision, said)

    def make_room(self) -> None:
        """Create the object store for copies: when one is needed, a server may be missing for it."""
        self._server.connection.ask(self._copies.store)

    def offer(self, copy: Copy, file: Path) -> None:
        """Store a copy of a database, and say that it is there."""

        async def put(js: Any) -> None:
            store = await self._copies.store(js)
            chunk = max(min(_CHUNK, self._server.room), 1)
            meta = ObjectMeta(name=copy.name, options=ObjectMetaOptions(max_chunk_size=chunk))
            with file.open("rb") as content:
                await store.put(copy.name, content, meta)

        self._server.connection.ask(put)
        self._keys.put(f"copy.{copy.name}", json.dumps(asdict(copy)).encode())

    def offered(self, name: str) -> Copy | None:
        """Return a copy that is there; None if it is not."""
        key = self._keys.get(f"copy.{name}")
        return None if key is None or not key.value else Copy(**_said(Copy, key))

    def fetch(self, copy: Copy, file: Path, fetched: Callable[[int], None]) -> None:
        """Write a copy to a file; ``fetched`` is called with its percentage now and then.

        :raises DamagedCopy: it differs from the stored copy, or a part of it is missing
        :raises StoreUnavailable: the file cannot be written, too
        """
        connection, copies = self._server.connection, self._copies
        try:
            info = connection.ask(lambda js: copies.facts(js, copy.name))
        except NotFoundError as error:
            raise DamagedCopy(f"the copy {copy.name} of the master's database is gone") from error
        digest, at, done, known = sha256(), 1, 0, -1
        try:
            file.touch(0o640)
            with file.open("wb") as content:
                for _ in range(info.chunks or 0):
                    try:
                        message = connection.ask(partial(copies.piece, number=info.nuid, at=at))
                    except NotFoundError:
                        break
                    piece = message.data or b""
                    digest.update(piece)
                    content.write(piece)
                    at, done = message.seq + 1, done + len(piece)
                    if (percentage := done * 100 // max(copy.size, 1)) > known:
                        known = percentage
                        fetched(percentage)
        except OSError as error:
            raise StoreUnavailable(
                f"a copy of the master's database, of {copy.size} bytes, cannot be written to {file}:"
                f" {error.strerror}; make room, and it is asked for again"
            ) from error
        wanted = base64.urlsafe_b64decode(info.digest.partition("=")[2])
        if digest.digest() != wanted or done != copy.size:
            raise DamagedCopy(
                f"the copy {copy.name} of the master's database is damaged; another is asked for"
            )

    def drop(self, name: str) -> None:
        """Remove a copy, if it is there."""
        with suppress(NotFoundError):
            self._server.connection.ask(lambda js: self._copies.remove(js, name))


def _said(kind: type[Member] | type[Copy], key: Key) -> dict[str, Any]:
    """Return the parts of a report that this version knows; a later version may report more."""
    said = json.loads(key.value)
    return {field.name: said[field.name] for field in fields(kind) if field.name in said}


def _member(key: Key, silent: float) -> Member | None:
    try:
        return replace(Member(**_said(Member, key)), silent=silent)
    except (ValueError, TypeError):
        return None


def group(config: JournalConfig) -> ReplicaGroup:
    """Return the role, the position and the lag of each broker of a replicated journal, from its servers.

    Any process may ask, member or not; a :class:`Member` is its own report.

    :raises ConfigurationError: the stream contradicts the configuration
    :raises CorruptJournal: the end of the stream cannot be read
    :raises StoreUnavailable: the servers do not answer
    """
    with closing(StreamServer(config, create=False)) as server:
        contents = contents_of(server)
        return ReplicaGroup(contents.last_number, contents.first_number, tuple(Members(server).every()))
