"""``broker``: what its options may not be."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Invoke


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stomp", "61613"), "must be HOST:PORT"),
        (("--certificate", "x.pem"), "--certificate and --private-key are for --stomp-tls"),
        (("--stomp-tls", "127.0.0.1:0"), "needs a certificate"),
        (("--health", "x"), "health must be HOST:PORT"),
    ],
)
def test_what_cannot_work(invoke: Invoke, arguments: tuple[str, ...], told: str) -> None:
    result = invoke("broker", *arguments)

    assert (result.code, result.out) == (2, "")
    assert told in result.err
