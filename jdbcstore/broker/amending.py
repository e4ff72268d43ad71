"""Changes of sent messages by plug-ins, in their order, and by a destination's policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jdbcstore.config.plugins import (
    ForcePersistencyModeConfig,
    LoggingConfig,
    PluginConfig,
    TimeStampingConfig,
)
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.message import Message
from jdbcstore.util.clock import Clock

Amend = Callable[[Message], Message]
"""Returns the message that the broker accepts."""


def amending(plugins: Sequence[PluginConfig], clock: Clock, log: Amend | None = None) -> Amend | None:
    """Return the function that applies the plug-ins to each message; None if no plug-in changes messages.

    :param log: logs a message, if configured
    """
    steps: list[Amend] = []
    for plugin in plugins:
        match plugin:
            case ForcePersistencyModeConfig():
                steps.append(_Persistency(plugin.persistence_flag))
            case TimeStampingConfig():
                steps.append(_TimeStamps(plugin, clock))
            case LoggingConfig() if log is not None:
                steps.append(log)
            case _:
                continue
    return _Amendments(steps) if steps else None


class _Amendments:
    """Several amendments, applied in order."""

    def __init__(self, steps: Sequence[Amend]) -> None:
        self._steps = steps

    def __call__(self, message: Message) -> Message:
        for step in self._steps:
            message = step(message)
        return message


class _Persistency:
    """Makes each message persistent or non-persistent."""

    def __init__(self, is_persistent: bool) -> None:
        self._is_persistent = is_persistent

    def __call__(self, message: Message) -> Message:
        if message.persistent is self._is_persistent:
            return message
        return message.replace(persistent=self._is_persistent)


class _TimeStamps:
    """Replaces the client's time by the broker's, and keeps the time to live within its bounds."""

    def __init__(self, config: TimeStampingConfig, clock: Clock) -> None:
        self._clock = clock
        self._default_ms = round(config.zero_expiration_override * 1000)
        self._most_ms = round(config.ttl_ceiling * 1000)
        self._future_only = config.future_only

    def __call__(self, message: Message) -> Message:
        sent_ms, expires_ms = message.timestamp_ms, message.expiration_ms
        if not sent_ms:
            return message  # its producer has switched timestamps off
        to_live_ms = expires_ms - sent_ms if expires_ms > 0 else self._default_ms
        if to_live_ms > 0 and self._most_ms:
            to_live_ms = min(to_live_ms, self._most_ms)
        now_ms = self._clock.now_ms()
        if self._future_only and now_ms + to_live_ms <= expires_ms:
            return message
        if to_live_ms <= 0:
            return message.replace(timestamp_ms=now_ms)
        return message.replace(timestamp_ms=now_ms, expiration_ms=now_ms + to_live_ms)


def with_expiration(message: Message, policy: PolicyEntry, now_ms: int) -> Message:
    """Return a message with the expiration of its destination's policy, as in Artemis."""
    if not policy.changes_expiration:
        return message
    expires_ms = message.expiration_ms
    if policy.no_expiry:
        wanted_ms = 0
    elif policy.expiry_delay is not None:
        wanted_ms = expires_ms or _after(policy.expiry_delay, now_ms)
    else:
        least, most = policy.min_expiry_delay, policy.max_expiry_delay
        wanted_ms = expires_ms
        if most is not None and not 0 < expires_ms <= _after(most, now_ms):
            wanted_ms = _after(most, now_ms)
        elif least is not None and expires_ms < _after(least, now_ms):
            wanted_ms = _after(least, now_ms)
    return message if wanted_ms == expires_ms else message.replace(expiration_ms=wanted_ms)


def _after(delay: float, now_ms: int) -> int:
    return now_ms + round(delay * 1000)
