"""TLS of a connector with key stores of Java, as PKCS #12."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.broker.transport.connector import server_context
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import ConfigurationError
from tests.support.broker.certificates import make_certificate

PASSWORD = "s3cret"


@pytest.fixture
def key_store(tmp_path: Path) -> Path:
    path = tmp_path / "broker.ks"
    command = ("openssl", "pkcs12", "-export", "-in", str(make_certificate(tmp_path)), "-out", str(path))
    subprocess.run([*command, "-passout", f"pass:{PASSWORD}"], check=True, capture_output=True)
    return path


def config(key_store: Path, password: str | None = PASSWORD, **more: Any) -> ConnectorConfig:
    return ConnectorConfig(
        uri="ssl://127.0.0.1:0", certificate=str(key_store), certificate_password=password, **more
    )


def test_a_handshake_with_a_key_store(key_store: Path) -> None:
    authorities = {"trusted_certificates": str(key_store), "trusted_certificates_password": PASSWORD}
    server = server_context(config(key_store, **authorities))
    client = ssl.create_default_context(cafile=str(key_store.with_name("broker.pem")))

    ways = [ssl.MemoryBIO() for _ in range(4)]
    ends = (
        server.wrap_bio(ways[0], ways[1], server_side=True),
        client.wrap_bio(ways[2], ways[3], server_hostname="localhost"),
    )
    done: set[int] = set()
    for _ in range(10):
        for number, end in enumerate(ends):
            try:
                end.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                pass
            ways[2 - 2 * number].write(ways[1 + 2 * number].read())
    assert done == {0, 1}
    assert ends[1].getpeercert()
    assert server.get_ca_certs()


def test_key_stores_that_cannot_be_used(key_store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*; give its password, or provide PEM"):
        server_context(config(key_store, "wrong"))
    old = tmp_path / "old.jks"
    old.write_bytes(b"\xfe\xed\xfe\xed and more")
    with pytest.raises(ConfigurationError, match=r"-srckeystore old\.jks -destkeystore old\.p12"):
        server_context(config(old))
    with pytest.raises(ConfigurationError, match=r"cannot read .*; name another file"):
        server_context(config(tmp_path / "none.ks"))
