"""The network check, which needs an answer from any of some machines; Artemis's ``network-check-list``."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from jdbcstore.errors import ConfigurationError

log = logging.getLogger(__name__)

_ARGUMENT = re.compile(r"%(?:([12])\$)?[ds]")
_PORTS = {"http": 80, "https": 443}


class NetworkWatch:
    """Periodic check whether any of some machines answers.

    :param hosts: names or addresses to check by ``ping``
    :param urls: web pages, whose server must accept a connection
    :param period: seconds between two checks
    :param timeout: seconds for an answer
    :param commands: the command instead of ``ping``, and the command for machines with only IPv6 addresses,
        if given
    :param on_change: called with the state of the network when it changes
    """

    def __init__(
        self,
        *,
        hosts: Sequence[str],
        urls: Sequence[str],
        period: float,
        timeout: float,
        on_change: Callable[[bool], None],
        commands: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self._hosts, self._urls = hosts, urls
        self._period, self._timeout = period, timeout
        self._on_change = on_change
        self._command, self._command6 = commands
        self._names = ", ".join((*hosts, *urls))
        self.is_there = True
        """Whether any machine answered at the last check."""

    async def run(self) -> None:
        """Check until this is cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(self._period)

    async def check(self) -> None:
        """Check now, and call ``on_change`` if the state of the network changed.

        :raises ConfigurationError: the program ``ping``, or of a command, does not exist
        """
        asked = [*map(self._pings, self._hosts), *map(self._connects, self._urls)]
        was_there, self.is_there = self.is_there, any(await asyncio.gather(*asked))
        if self.is_there is not was_there:
            if self.is_there:
                log.warning("the network is up again")
            else:
                log.error("the network is down: none of %s answers", self._names)
            self._on_change(self.is_there)

    async def _pings(self, host: str) -> bool:
        given = self._command
        if self._command6 is not None and await _has_only_ipv6(host):
            given = self._command6
        seconds = f"{max(self._timeout, 1):.0f}"
        command = ["ping", "-c", "1", "-W", seconds, "--", host]
        if given is not None:
            command = _formatted(given, seconds, host).split()
        try:
            ping = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL)
        except OSError as error:
            text = f"network_check_list needs the program {command[0]}: {error.strerror}; install"
            cure = "iputils-ping" if given is None else "it"
            raise ConfigurationError(
                f"{text} {cure}, or use network_check_urls", option="network_check_list"
            ) from error
        try:
            async with asyncio.timeout(self._timeout + 1):
                return await ping.wait() == 0
        except TimeoutError:
            ping.kill()
            await ping.wait()
            return False

    async def _connects(self, url: str) -> bool:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 80)
        try:
            async with asyncio.timeout(self._timeout):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True


async def _has_only_ipv6(host: str) -> bool:
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return False
    return {family for family, *_ in addresses} == {socket.AF_INET6}


def _formatted(command: str, seconds: str, host: str) -> str:
    """Format a command with the seconds and the machine, like Java's format."""
    values = [seconds, host]
    plain = iter(values)
    return _ARGUMENT.sub(lambda match: values[int(match[1]) - 1] if match[1] else next(plain, host), command)
