"""Buckets beside the stream of a simulation: keys that expire, and objects in pieces.

They are on the servers of the stream, and fail with them. A put may take effect and its answer be lost, or
take effect later, if the key is then as it was expected. An old leader answers reads from what it had.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from nats.js.api import ObjectInfo, ObjectMeta
from nats.js.errors import APIError, NotFoundError

from tests.simulation.scheduler import EPOCH_MS, Task, current

if TYPE_CHECKING:
    from tests.simulation.jetstream import SimulatedConnection

_WRONG_LAST = 10071
_LATEST = 3.0
"""Seconds after which a put that was under way has taken effect."""


class Put(NamedTuple):
    """A message of a bucket."""

    seq: int
    data: bytes
    headers: dict[str, str] | None
    at: float

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(EPOCH_MS / 1000 + self.at, UTC)


@dataclass
class _Facts:
    max_age: float | None


class Bucket:
    """The messages of a bucket, by subject; of a bucket of keys only the last of each counts."""

    def __init__(self, max_age: float | None) -> None:
        self.config = _Facts(max_age)
        self._puts: dict[str, list[Put]] = {}
        self._purged: dict[str, int] = {}
        """By subject, the last sequence that is purged."""
        self.last = 0

    def _seen(self, subject: str, upto: float) -> Put | None:
        """Return the last put of a subject until a time, unless it has expired."""
        puts = self._puts.get(subject, [])
        found = bisect_right(puts, upto, key=lambda one: one.at)
        if not found or puts[found - 1].seq <= self._purged.get(subject, 0):
            return None
        age = self.config.max_age
        return None if age and current().now - puts[found - 1].at >= age else puts[found - 1]

    def get(self, subject: str, upto: float) -> Put:
        """Return the last message of a subject as of a time.

        :raises NotFoundError: there is none
        """
        found = self._seen(subject, upto)
        if found is None:
            raise NotFoundError(code=404, err_code=10037, description="no message found")
        return found

    def next(self, subject: str, at: int) -> Put:
        """Return the first message of a subject from a sequence on.

        :raises NotFoundError: there is none
        """
        for one in self._puts.get(subject, ()):
            if one.seq >= at and one.seq > self._purged.get(subject, 0):
                return one
        raise NotFoundError(code=404, err_code=10037, description="no message found")

    def subjects(self, upto: float) -> dict[str, int]:
        """Return the subjects that have a message as of a time."""
        return {subject: 1 for subject in self._puts if self._seen(subject, upto) is not None}

    def put(self, subject: str, data: bytes, headers: dict[str, str]) -> Put:
        """Append a message, if the last one of its subject is the expected one.

        :raises APIError: it is another
        """
        wanted = headers.get("Nats-Expected-Last-Subject-Sequence")
        before = self._seen(subject, current().now)
        if wanted is not None and int(wanted) != (0 if before is None else before.seq):
            raise APIError(code=400, err_code=_WRONG_LAST, description="wrong last sequence")
        self.last += 1
        one = Put(self.last, data, headers, current().now)
        self._puts.setdefault(subject, []).append(one)
        return one

    def put_later(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        """Let a message be appended later, if it is expected then."""
        delay = current().chance.random() ** 2 * _LATEST
        arguments = subject, data, headers, delay
        Task(self._finish, arguments, process=current().machine).start()

    def _finish(self, subject: str, data: bytes, headers: dict[str, str], delay: float) -> None:
        current().sleep(delay)
        try:
            self.put(subject, data, headers)
        except APIError:
            return

    def purge(self, subject: str) -> None:
        """Remove the messages of a subject."""
        self._purged[subject] = self.last


class Objects:
    """An object store, as the client writes it: pieces, and then the facts."""

    def __init__(self, connection: SimulatedConnection, name: str) -> None:
        self._js = connection.js
        self._name = name
        self._stream = f"OBJ_{name}"

    def _facts(self, name: str) -> str:
        return f"$O.{self._name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def put(self, name: str, content: Any, meta: ObjectMeta) -> None:
        """Store an object."""
        number = f"N{current().chance.getrandbits(40)}"
        size = meta.options.max_chunk_size if meta.options else None
        digest, chunks, total = sha256(), 0, 0
        while piece := content.read(size):
            await self._js.publish(f"$O.{self._name}.C.{number}", piece, timeout=0.0, stream=self._stream)
            digest.update(piece)
            chunks, total = chunks + 1, total + len(piece)
        facts = {
            "name": name,
            "bucket": self._name,
            "nuid": number,
            "size": total,
            "chunks": chunks,
            "digest": f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}",
        }
        data = json.dumps(facts).encode()
        await self._js.publish(self._facts(name), data, timeout=0.0, stream=self._stream)

    async def list(self, *, ignore_deletes: bool) -> list[ObjectInfo]:
        """Return the facts of all objects of the store of refused messages: no database refuses any."""
        del ignore_deletes
        await self._js.stream_info(self._stream)
        return []

    async def get_info(self, name: str) -> ObjectInfo:
        """Return the facts of an object.

        :raises NotFoundError: there is none
        """
        found = await self._js.get_last_msg(self._stream, self._facts(name))
        return ObjectInfo.from_response(json.loads(found.data))


def info(bucket: Bucket, upto: float) -> Any:
    """Return what the servers say of a bucket."""
    return SimpleNamespace(
        config=SimpleNamespace(**asdict(bucket.config)),
        state=SimpleNamespace(subjects=bucket.subjects(upto), last_seq=bucket.last),
    )
