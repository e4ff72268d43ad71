"""The state of a stream as its servers describe it: they are asked once, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from nats.errors import Error as NatsError
from nats.js.api import StreamInfo, StreamState
from nats.js.errors import APIError, NotFoundError

from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.journal.stream.connection import ANSWER, CONNECTING, NatsConnection
from jdbcstore.journal.stream.server import unfit
from jdbcstore.util.stream_health import StreamHealth

T = TypeVar("T")

LOOK = 2.0
"""Seconds for which an answer is awaited."""
Missing = Callable[[StreamState], str | None]
"""Returns which acknowledged messages a stream does not have, as a sentence; None if it has all."""


def _nothing(_: StreamState) -> str | None:
    return None


def looked_at(config: JournalConfig) -> StreamHealth:
    """Return the state of the stream, over a connection of its own.

    If the first server does not know it, each is asked alone: the others may serve.

    :raises ConfigurationError: the configuration is wrong, so that no server can be asked
    """
    state = _looked_at(config)
    if state.present is None and len(config.servers) > 1:
        for found in _of_each(config, partial(_looked_at, patience=ANSWER)).values():
            if found.present is not None:
                return replace(found, place=config.place)
    return state


def _looked_at(config: JournalConfig, patience: float = CONNECTING) -> StreamHealth:
    try:
        connection = NatsConnection(config, patience)
    except ConfigurationError:
        raise
    except StoreError as error:
        return _known(config, problem=str(error))
    with closing(connection):
        return connection.run(health(connection, config))


def _of_each(config: JournalConfig, look: Callable[[JournalConfig], T]) -> dict[str, T]:
    """Look at each server alone, all at the same time; return the results by server."""
    alone = [replace(config, stream=server) for server in config.servers]
    with ThreadPoolExecutor(len(alone)) as pool:
        return dict(zip(config.servers, pool.map(look, alone), strict=True))


def not_serving(config: JournalConfig) -> list[str]:
    """Return the servers of a stream that do not serve, each with the reason; each is tried alone."""
    return [f"{server} {why}" for server, why in _of_each(config, _why_not).items() if why]


def _why_not(config: JournalConfig) -> str:
    try:
        connection = NatsConnection(config)
    except StoreError:
        return "takes no connection"
    with closing(connection):
        return connection.run(_silence(connection, config))


async def _silence(connection: NatsConnection, config: JournalConfig) -> str:
    with suppress(NatsError, OSError, TimeoutError):
        await asyncio.wait_for(connection.js.stream_info(config.stream_name), LOOK)
    if not connection.has_jetstream:
        return "has turned JetStream off: make room on its disk, and start it again"
    if await connection.is_answered():
        return ""
    return (
        "takes connections, and answers nothing: stop it, make room on its disk, and start it; nats-server"
        " 2.10 and later turn JetStream off instead, and the others go on"
    )


async def health(
    connection: NatsConnection, config: JournalConfig, missing: Missing = _nothing
) -> StreamHealth:
    """Return the state of the stream, over a connection that is open; on its loop."""
    if not connection.is_connected:
        return _known(config, problem=f"the connection is lost: {connection.trouble}")
    try:
        info = await asyncio.wait_for(connection.js.stream_info(config.stream_name), LOOK)
    except NotFoundError:
        absent = _known(config, problem="it does not exist: a broker creates it, unless it was deleted")
        return replace(absent, present=0, current=0)
    except APIError as error:
        return _known(config, problem=f"its servers answer {error.description or error.code}")
    except (NatsError, OSError, TimeoutError):
        if (denial := connection.denial()) is not None:
            return _known(config, problem=str(denial))
        return _known(config, problem="no server answers for it: there is no quorum, or an election")
    state = _found(config, info)
    if state.problem is not None:
        return state
    reason = unfit(info.config, config)
    problem = f"it {reason}" if reason else missing(info.state)
    return state if problem is None else replace(state, problem=problem, is_unsafe=True)


def _known(config: JournalConfig, problem: str | None) -> StreamHealth:
    return StreamHealth(
        name=config.stream_name,
        place=config.place,
        sync=config.sync,
        replicas=config.replicas,
        problem=problem,
    )


def _found(config: JournalConfig, info: StreamInfo) -> StreamHealth:
    cluster, limit = info.cluster, info.config.max_bytes or 0
    others = [] if cluster is None else cluster.replicas or []
    leader = None if cluster is None else cluster.leader or None
    if cluster is not None and leader is None:  # a follower knows less of the others
        return _known(config, problem="its servers have no leader now: there is no quorum, or an election")
    present = len(others) + 1
    behind = tuple(str(peer.name) for peer in others if not peer.current or peer.offline)
    current = present - len(behind)
    problem = None
    if 2 * current <= present:
        problem = f"only {current} of the {present} servers that it is on are up and current, and no quorum"
    return replace(
        _known(config, problem),
        present=present,
        current=current,
        behind=behind,
        leader=leader,
        messages=info.state.messages,
        size=info.state.bytes,
        limit=limit if limit > 0 else None,
    )
