"""A process that claims messages, and does what it is told on its standard input, one line each."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from jdbcstore.errors import StoreError
from jdbcstore.stores.claims import Claim, Claims
from tests.support.cli.zygote import fork_main

QUEUE = "ORDERS"


def main(url: str, lease: str, name: str) -> None:
    with Claims(url, lease=float(lease), name=name) as claims:
        queue = claims.queue(QUEUE)
        held: list[Claim] = []
        for line in sys.stdin:
            command, _, argument = line.strip().partition(" ")
            answer: Any = None
            try:
                if command == "claim":
                    held = queue.claim(int(argument), wait=180.0)
                    answer = [claim.message.body for claim in held]
                elif command == "acknowledge":
                    queue.acknowledge(*held)
                elif command == "drain":
                    answer = []
                    while held := queue.claim(int(argument)):
                        answer += [claim.message.body for claim in held]
                        queue.acknowledge(*held)
            except StoreError as error:
                answer = type(error).__name__
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


class Worker:
    """That process, as a test sees it."""

    def __init__(self, url: str, lease: float = 30.0, name: str = "worker") -> None:
        pipe = subprocess.PIPE
        self.process = fork_main(__name__, url, str(lease), name, stdin=pipe, stdout=pipe)

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, command: str) -> Any:
        self.tell(command)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.process.communicate()
