"""The stream of a journal on its servers: its replicas and its faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jdbcstore.util.checkup import BAD, WARNING, Diagnosis

STOPPED, DEGRADED, FULL = "stream stopped", "stream degraded", "stream nearly full"
UNSAFE = "stream unsafe"
MISSED = "follower missed"
"""The names of what may be wrong with a stream."""
_FULL = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMember:
    """A broker whose own database follows a stream, as it has described itself last."""

    name: str
    role: str
    """``master`` or ``follower``."""
    applied: int
    """The last record that its database has."""
    lag: int
    """The records of the stream that its database lacks."""
    silent: float
    """Seconds since it has said something."""
    is_alive: bool
    """Whether it has said something in the last ten seconds."""
    trouble: str
    """Why it does not follow now; empty if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHealth:
    """A stream as its servers describe it now; unknown values are None."""

    name: str
    place: str
    """Its name and servers, for messages to people."""
    sync: str
    """The option ``sync``: what an acknowledged write is in, ``quorum_mem`` or ``quorum_disk``."""
    replicas: int
    """The servers that are to have it: the option ``replicas``."""
    present: int | None = None
    """The servers that the stream is on; 0 if it does not exist."""
    current: int | None = None
    """The number of running servers with all of it."""
    behind: tuple[str, ...] = ()
    """The names of the servers that are down, or do not have all of it."""
    leader: str | None = None
    """The name of the server that leads the others."""
    messages: int | None = None
    """The messages of NATS in it, each of one or more records."""
    size: int | None = None
    """Their bytes."""
    limit: int | None = None
    """The most bytes that it may have; None also without a limit of its own."""
    problem: str | None = None
    """Why nothing can be written to it now, or it is unsafe; None if neither."""
    is_unsafe: bool = False
    """Whether it can be written, but may lose acknowledged messages."""
    members: tuple[StreamMember, ...] = ()
    """The brokers that follow it with databases of their own, heard of in the last day."""

    @property
    def named_behind(self) -> str:
        """The servers that are down or behind, for the end of a sentence; empty if none is."""
        return f"; {', '.join(self.behind)} are down or behind" if self.behind else ""

    @property
    def diagnoses(self) -> Iterator[Diagnosis]:
        """All that is wrong, the worst first."""
        if self.problem is not None and self.is_unsafe:
            yield Diagnosis(
                name=UNSAFE,
                severity=BAD,
                text=f"The stream of the journal may lose acknowledged messages: {self.problem}",
                cure="undo the change of the stream; until then a checkpoint is made each second, and another"
                " broker may not be able to follow this one",
            )
        elif self.problem is not None:
            yield Diagnosis(
                name=STOPPED,
                severity=BAD,
                text=f"The stream of the journal cannot be written: {self.problem}",
                cure="start its servers again, or mend the network between them; writes wait meanwhile",
            )
        elif self.current is not None and self.current < self.replicas:
            yield Diagnosis(
                name=DEGRADED,
                severity=WARNING,
                text=f"The stream of the journal has {self.current} current replicas, and"
                f" {self.replicas} are asked for{self.named_behind}",
                cure="start its other servers again with room on their disks, or replace them, before"
                " another one fails",
            )
        if self.size is not None and self.limit and self.size > _FULL * self.limit:
            yield Diagnosis(
                name=FULL,
                severity=WARNING,
                text=f"The stream of the journal is full to {100 * self.size // self.limit} %: writes are"
                " refused when it is full",
                cure="look at why the database is behind, or raise max_bytes of the stream",
            )
        for member in self.members:
            if not member.is_alive or member.trouble:
                said = member.trouble or f"it has said nothing for {member.silent:.0f} s"
                yield Diagnosis(
                    name=MISSED,
                    severity=WARNING,
                    text=f"The broker {member.name} does not follow the stream: {said}",
                    cure="start it again; if it is gone for good, it is forgotten after a day",
                )
