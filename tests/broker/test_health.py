"""Liveness and readiness."""

from __future__ import annotations

import asyncio
import socket
import weakref

import aiohttp
import pytest
from aiohttp import web

from jdbcstore.broker.condition import BrokerCondition, BrokerState
from jdbcstore.broker.process.health import HealthServer
from jdbcstore.config.broker import Address
from jdbcstore.testing.polling import wait_until

SERVING = BrokerCondition(state=BrokerState.SERVING)


async def answers(address: Address, *paths: str) -> list[tuple[int, str]]:
    async with aiohttp.ClientSession() as session:
        found = []
        for path in paths:
            async with session.get(f"http://{address}{path}") as response:
                found.append((response.status, (await response.text()).strip()))
        return found


def test_what_it_says() -> None:
    async def main() -> None:
        condition = BrokerCondition(state=BrokerState.WAITING, reason="A holds the lock", what_to_do="use A")
        server = HealthServer(Address("127.0.0.1", 0), lambda: condition)
        address = await server.start()
        try:
            said = "waiting for another broker: A holds the lock; use A"
            assert await answers(address, "/live", "/ready") == [(200, "live"), (503, said)]
            condition = SERVING
            assert await answers(address, "/live", "/ready") == [(200, "live"), (200, "ready")]
            assert [code for code, _ in await answers(address, "/", "/status")] == [404, 404]
        finally:
            await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await answers(address, "/live")

    asyncio.run(main())


def test_what_waits_for_a_database_is_answered_when_the_outage_is_known() -> None:
    """Unless a part of the answer has been sent."""

    async def main() -> None:
        condition, asked, ended = SERVING, asyncio.Semaphore(0), asyncio.Event()

        async def page(_: web.Request) -> web.Response:
            asked.release()
            if condition.serves:
                await asyncio.Event().wait()
            return web.Response(text=str(condition))

        async def export(request: web.Request) -> web.StreamResponse:
            answer = web.StreamResponse()
            await answer.prepare(request)
            await answer.write(b"begun ")
            asked.release()
            await ended.wait()
            await answer.write(b"ended")
            return answer

        part = web.Application()
        part.add_routes([web.get("/page", page), web.get("/export", export)])
        server = HealthServer(Address("127.0.0.1", 0), lambda: condition, {"/part": part})
        address = await server.start()
        try:
            waiting = [asyncio.create_task(answers(address, f"/part/{name}")) for name in ("page", "export")]
            for _ in waiting:
                await asked.acquire()
            condition = BrokerCondition(state=BrokerState.UNREACHABLE)
            assert await waiting[0] == [(200, "database unreachable")]
            ended.set()
            assert await waiting[1] == [(200, "begun ended")]
        finally:
            await server.stop()

    async def bounded() -> None:
        async with asyncio.timeout(180):
            await main()

    asyncio.run(bounded())


def test_who_does_not_end_his_request_is_left() -> None:
    async def main() -> None:
        server = HealthServer(Address("127.0.0.1", 0), lambda: SERVING, idle_timeout=0.05)
        address = await server.start()
        try:
            async with asyncio.timeout(120):
                for begun in (b"", b"GET /live", b"GET /live HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
                    reader, writer = await asyncio.open_connection(*address)
                    writer.write(begun)
                    assert await reader.read() == b""
                    writer.close()
            assert await answers(address, "/live") == [(200, "live")]
        finally:
            await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["of time", "of memory"])
def test_who_does_not_read_his_answer_is_dropped(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer would stay in memory for as long as the client likes."""
    body = b"x" * 50_000_000

    kept: weakref.WeakSet[web.Response] = weakref.WeakSet()

    class Answer(web.Response):
        """One that can be watched."""

    async def large(_request: web.Request) -> web.Response:
        answer = Answer(body=body)
        kept.add(answer)
        return answer

    async def main() -> None:
        part = web.Application()
        part.router.add_get("/answer", large)
        timeout = 0.05
        if limit == "of memory":
            monkeypatch.setattr("jdbcstore.broker.process.health._MOST_UNSENT", 10_000_000)
            timeout = 300.0
        server = HealthServer(
            Address("127.0.0.1", 0), lambda: SERVING, {"/large": part}, idle_timeout=timeout
        )
        address = await server.start()
        try:
            clients = [socket.create_connection(address) for _ in range(1 if limit == "of time" else 2)]
            for client in clients:
                client.sendall(b"GET /large/answer HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.to_thread(client.recv, 1)
            # After each answer it is looked at what is unread. One alone may be as large as it is.
            assert await answers(address, "/live") == [(200, "live")]
            done = lambda: len(kept) < len(clients)  # noqa: E731
            await asyncio.to_thread(wait_until, done, 60.0, "that an answer is dropped")
            for client in clients:
                client.close()
        finally:
            await server.stop()

    asyncio.run(main())


def test_an_address_that_is_taken() -> None:
    async def main() -> None:
        first = HealthServer(Address("127.0.0.1", 0), lambda: SERVING)
        address = await first.start()
        with pytest.raises(OSError, match="address already in use"):
            await HealthServer(address, lambda: SERVING).start()
        await first.stop()

    asyncio.run(main())
