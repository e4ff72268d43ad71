"""Servers with TLS, with certificates of clients, and with users who may not do everything."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from jdbcstore.errors import AuthenticationFailed, ConfigurationError, StoreUnavailable
from jdbcstore.journal.logs import health
from jdbcstore.journal.stream import connection as connection_module
from jdbcstore.journal.stream import server as server_module
from jdbcstore.journal.stream.connection import NatsConnection
from jdbcstore.journal.stream.server import StreamServer
from jdbcstore.testing.polling import wait_until
from tests.support.broker.certificates import make_certificate
from tests.support.streams import NatsServer, streamed

pytestmark = pytest.mark.servers
SECRET = "s3cret"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CONNECTING", 2.0)
    monkeypatch.setattr(connection_module, "ANSWER", 1.0)
    monkeypatch.setattr(server_module, "ANSWER", 1.0)
    monkeypatch.setenv("STREAM_PASSWORD", SECRET)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The certificates of a server and of a client, each its own authority."""
    first, second = (str(make_certificate(tmp_path_factory.mktemp("certificate"))) for _ in range(2))
    return first, second


def test_both_sides_have_certificates(
    name: str, files: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    own, client = files
    settings = f'tls {{ cert_file: "{own}"\nkey_file: "{own}"\nca_file: "{client}"\nverify: true }}\n'
    with NatsServer(settings=settings) as server:
        url = server.url.replace("nats:", "tls:")
        config = streamed(url, name, stream_authorities=own, stream_certificate=client)
        stream = StreamServer(config)
        stream.append(b"x", 0)
        server.kill()  # so that the servers end the connection
        server.start()
        wait_until(lambda: stream.connection.is_connected, what="the connection")
        stream.close()
        assert "eof_received" not in caplog.text
        for wrong, option in (
            ({"stream_authorities": client, "stream_certificate": client}, "stream_authorities"),
            ({"stream_authorities": own, "stream_certificate": own}, "stream_certificate"),
            ({"stream_authorities": own}, "stream_certificate"),
            ({"stream_certificate": client}, "stream_authorities"),
        ):
            with pytest.raises(StoreUnavailable, match=rf"certificate\b.* in {option}"):
                NatsConnection(streamed(url, name, **wrong))


@pytest.mark.parametrize("option", ["stream_authorities", "stream_certificate"])
def test_a_file_that_has_no_certificate_is_named(name: str, tmp_path: Path, option: str) -> None:
    wrong = tmp_path / "wrong.pem"
    for content in (None, "nothing"):
        if content is not None:
            wrong.write_text(content)
        with pytest.raises(ConfigurationError, match=rf"{option} is .*wrong\.pem") as error:
            NatsConnection(streamed("nats://127.0.0.1:1", name, **{option: str(wrong)}))
        assert error.value.option == f"journal.{option}"


def test_no_login_is_sent_without_tls(name: str, files: tuple[str, str]) -> None:
    """Who is between the two could say that there is none, and would be told the password."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    facts = {"server_id": "x", "version": "2.9.10", "max_payload": 1 << 20, "headers": True}
                    line.sendall(b"INFO " + json.dumps(facts).encode() + b"\r\n")
                    received.append(line.recv(1000))

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"tls://127.0.0.1:{listening.getsockname()[1]}"
        login = {"stream_user": "mq", "stream_password_env": "STREAM_PASSWORD"}
        try:
            with pytest.raises(StoreUnavailable, match="does not ask for TLS, and no login was sent"):
                NatsConnection(streamed(url, name, stream_authorities=files[0], **login))
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert received
    assert not any(received)


@pytest.mark.parametrize(
    ("permissions", "said"),
    [
        ('publish: { deny: "jdbcstore.journal.>" }', r"publish to jdbcstore\.journal\."),
        ('publish: { allow: "jdbcstore.journal.>" }', r"publish to \$js\.api\.stream\.info"),
        ('subscribe: { allow: "mine" }', "subscribe to _inbox"),
    ],
)
def test_a_user_who_may_not_is_told_at_once(name: str, permissions: str, said: str) -> None:
    """And what was not allowed to be written is not in doubt."""
    user = f"{{ user: mq, password: {SECRET}, permissions: {{ {permissions} }} }}"
    with NatsServer(settings=f"authorization {{ users: [ {user} ] }}\n") as server:
        config = streamed(server.url, name, stream_user="mq", stream_password_env="STREAM_PASSWORD")

        def write() -> None:
            opened = StreamServer(config)
            try:
                opened.append(b"x", 0)
            finally:
                assert opened.state().last == 0
                opened.close()

        with pytest.raises(AuthenticationFailed, match=f"does not let this login {said}") as error:
            write()
        assert SECRET not in str(error.value)
        found = health(config)
        assert found is not None
        assert (found.problem is None) is ("deny" in permissions)
