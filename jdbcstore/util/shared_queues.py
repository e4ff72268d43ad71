"""Queues that processes share: their settings, and their numbers at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """The settings of a queue."""

    paused: bool = False
    """Whether claims are paused."""
    claims: int | None = None
    """The most claims of all processes at the same time; None is without limit."""
    rate: float | None = None
    """The most claims per second of all processes; None is without limit."""
    burst: int | None = None
    """The claims that can be made at once after a pause; None without a rate."""
    keys: str | None = None
    """``"shared"`` if messages are claimed by key, ``"in order"`` if in order within a key; or None."""
    claims_per_key: int | None = None
    """The most claims of a key at the same time, where the key has no limit of its own."""
    rate_per_key: float | None = None
    """The most claims of a key per second, where the key has no rate of its own."""
    burst_per_key: int | None = None
    """The claims of such a key that can be made at once after a pause; None without a rate."""


@dataclass(frozen=True, slots=True)
class KeySettings:
    """The settings of one key of a queue."""

    paused: bool = False
    """Whether claims of its messages are paused."""
    claims: int | None = None
    """The most claims of all processes at the same time; None is that of the queue."""
    weight: int = 1
    """The number of claims in each round of keys."""
    rate: float | None = None
    """The most claims per second of all processes; None is that of the queue."""
    burst: int | None = None
    """The claims that can be made at once after a pause; None without a rate of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNumbers:
    """The numbers of one key."""

    key: str
    """Its name; empty for messages without one."""
    free: int
    """The messages that are neither claimed nor delayed, as far as they are filed under their keys."""
    has_more: bool
    """Whether there are more of them than were counted."""
    claimed: int
    delayed: int
    redeliveries: int
    """As those of the queue."""
    settings: KeySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNumbers:
    """The numbers of one queue."""

    queue: str
    free: int
    """The messages that are neither claimed nor delayed, and expired ones that are not removed yet."""
    has_more: bool = False
    """Whether there are more of them than were counted."""
    claimed: int = 0
    """The claims of all processes that are in force."""
    delayed: int = 0
    """The messages that can be claimed later only."""
    redeliveries: int = 0
    """The claims that were rejected, or left by processes that have died, of messages that are there."""
    oldest_free: float | None = None
    """Seconds since the first free message was sent; None without one, or if that is not known."""
    oldest_claimed: float | None = None
    """Seconds since the first of the claimed messages was sent."""
    settings: FlowSettings = FlowSettings()
    keys: Sequence[KeyNumbers] = ()
    """The first keys, if messages are claimed by key and that was asked for."""
    has_more_keys: bool = False
    """Whether there are more keys than were looked at."""

    @property
    def waiting_keys(self) -> int | None:
        """The examined keys with free messages; None if keys are ignored."""
        return None if self.settings.keys is None else sum(key.free > 0 for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerNumbers:
    """The numbers of one process that claims messages."""

    name: str
    lease_left: float
    """Seconds until its lease ends, unless it is renewed; negative if it has ended."""
    age: float | None
    """Seconds since it has its lease; None for a process of an older version."""
    claims: int


@dataclass(frozen=True, slots=True)
class SharedNumbers:
    """The queues and the processes that claim from them, at one moment."""

    queues: Sequence[ClaimNumbers] = ()
    workers: Sequence[WorkerNumbers] = ()
    more_queues: int = 0
    """The queues that were not looked at, because there are so many."""

    @property
    def running(self) -> int:
        """The processes whose lease is running."""
        return sum(worker.lease_left >= 0 for worker in self.workers)

    @property
    def left(self) -> int:
        """The claims of processes that have ended without closing, and that were not claimed again."""
        return sum(worker.claims for worker in self.workers if worker.lease_left < 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """A message of a queue that is claimed or delayed."""

    sequence: int
    """The ID of its row."""
    worker: str | None
    """The process that has claimed it; None if it is delayed, or left by a process that has ended."""
    due_in: float
    """Seconds until it can be claimed, if it is delayed."""
    redeliveries: int
