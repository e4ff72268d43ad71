"""The servers of one test session, each started when a test first needs it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from tests.support import docker
from tests.support.backends import BACKENDS, Backend
from tests.support.require import unavailable
from tests.support.servers import Server, ServerMissing

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system
_ENOUGH = 8 * 1024**3


def memory() -> Path | None:
    """Where files are in memory, if there is plenty of it: tests do not wait for the disk then."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    [available] = re.findall(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return _MEMORY if min(shutil.disk_usage(_MEMORY).free, int(available) * 1024) > _ENOUGH else None


class ServerPool:
    """Where each backend's server is, found once; private servers are shared between backends."""

    def __init__(self) -> None:
        self._private: dict[type[Server], Server | ServerMissing] = {}

    def address(self, backend: Backend, docker_services: Callable[[], Any]) -> URL:
        """A URL at which new databases can be made; skips the test where there is none.

        ``docker_services`` gives pytest-docker's fixture; asking for it starts the services.
        """
        if backend.missing_driver:
            unavailable(backend.id, backend.missing_driver)
        if backend.url_from_environment:
            return backend.url_from_environment
        server = self.private(backend)
        if isinstance(server, Server):
            return backend.private_url(server)
        no_docker = docker.missing()
        if no_docker:
            unavailable(backend.id, f"{backend.variable} is not set, {server}, and {no_docker}")
        try:
            services = docker_services()
        except Exception as failure:  # what pytest-docker raises: no network to pull from, say
            unavailable(backend.id, f"docker could not start it: {failure}")
        return backend.service_url("127.0.0.1", services.port_for(backend.service, backend.port))

    def private(self, backend: Backend) -> Server | ServerMissing:
        """This session's private server of the backend, or why there is none."""
        if backend.private is None:
            return ServerMissing("it has no private server")
        if backend.private not in self._private:
            try:
                self._private[backend.private] = backend.private(memory())
            except ServerMissing as missing:
                self._private[backend.private] = missing
        return self._private[backend.private]

    def services(self) -> list[str]:
        """The compose services that this session has to start if it starts any."""
        return sorted(
            {
                backend.service
                for backend in BACKENDS
                if backend.service
                and not backend.missing_driver
                and not backend.url_from_environment
                and isinstance(self.private(backend), ServerMissing)
            }
        )

    def close(self) -> None:
        for server in self._private.values():
            if isinstance(server, Server):
                server.close()
