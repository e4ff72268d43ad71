"""Defects put into the product on purpose, in the processes of the brokers: the campaign must find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jdbcstore.broker.stomp import session
from jdbcstore.database.connection import Connection
from jdbcstore.lockers.mastership import Fence


def skip_the_fence() -> None:
    """Let a master that has lost the lock go on to write."""

    def guard_by(connection: Any, epoch: Any = None, unclaimed: Any = None) -> None:  # noqa: ARG001
        return None

    def nothing(*_arguments: Any) -> None:
        return None

    mutate(Connection, "guard_by", guard_by)
    mutate(Fence, "check", nothing)
    mutate(Fence, "lose", nothing)


def skip_every_fence() -> None:
    """Let it also append to the stream of its journal, whoever else does."""
    from jdbcstore.journal.stream.connection import ANSWER
    from jdbcstore.journal.stream.server import StreamServer

    skip_the_fence()

    async def append(server: Any, message: bytes, after: int) -> None:  # noqa: ARG001
        await server.connection.js.publish(server._subject, message, timeout=ANSWER)

    mutate(StreamServer, "_append", append)


def answer_before_the_commit() -> None:
    """Send the receipts of SEND and COMMIT before anything is stored."""
    commands: Any = vars(session)["_COMMANDS"]
    for name in ("SEND", "COMMIT"):
        commands[name] = _answered_early(commands[name])


def _answered_early(command: Callable[..., None]) -> Callable[..., None]:
    def answered(of: Any, frame: Any, receipt: str | None) -> None:
        of._answer(receipt)
        command(of, frame, None)

    return answered


def mutate(kind: type, name: str, function: Callable[..., Any]) -> None:
    """Put another method in place of one."""
    assert name in vars(kind), f"{kind.__name__} has no {name} any more"
    setattr(kind, name, function)


MUTATIONS: dict[str, Callable[[], None]] = {
    "skip-the-fence": skip_the_fence,
    "skip-every-fence": skip_every_fence,
    "answer-before-the-commit": answer_before_the_commit,
}
"""By the name for ``--mutation``."""
