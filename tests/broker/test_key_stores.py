"""TLS of a connector with key stores of Java, as PKCS #12 and as JKS."""

from __future__ import annotations

import base64
import contextlib
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.broker.transport.connector import server_context
from jdbcstore.broker.transport.jks import read_jks
from jdbcstore.config.broker import ConnectorConfig
from jdbcstore.errors import ConfigurationError
from tests.support.broker.certificates import make_certificate

PASSWORD = "s3cret"
# As keytool of Java 17 has made them, with -storetype JKS; valid for a hundred years.
JKS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAGYnJva2VyAAABoh9EtRkAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGt2q1H7QWbOv6DXKaoogZue"
    "P2tKBcc6DZ3PcfdH9hTOGqhGMzhf1dMdpReiftgowRqdmvov+VEHQzEHDMuAe21mebRlY8Vi2i8udPXPRyELi/xHZ5Yy9rqL"
    "caUAPMKtR1Hk8POzNZrtaj/bRgAAAAEABVguNTA5AAABYTCCAV0wggEDoAMCAQICCExXgZNR/xKZMAoGCCqGSM49BAMCMBQx"
    "EjAQBgNVBAMTCWxvY2FsaG9zdDAgFw0yNjExMjcyMzA4NDZaGA8yMTI2MTEwMzIzMDg0NlowFDESMBAGA1UEAxMJbG9jYWxo"
    "b3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETbly2gc+tQajLd/WV14I016z3YeVVRKT1zaKHe1eNhiYwa/UN9d7ejhC"
    "ZglaLd/2rdv7gZLGwp38uP5hvfjGtaM9MDswHQYDVR0OBBYEFJNOeOV9IIYvQqFY9GuY61K/CYXeMBoGA1UdEQQTMBGCCWxv"
    "Y2FsaG9zdIcEfwAAATAKBggqhkjOPQQDAgNIADBFAiEAlm1hBQgDJdEBxmb5m3tTYvjSjMTTgd/5be4tn59NH2QCIGSFhuwe"
    "DpckxsVdiRfSWBDsARdk78YiL8x101xA8ZfAk47BUTUHNxQUYmb+GzQmna8Z3Pw="
)
TRUSTED_JKS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAgACY2EAAAGiH0S4CgAFWC41MDkAAAFhMIIBXTCCAQOgAwIBAgIITFeBk1H/EpkwCgYIKoZIzj0E"
    "AwIwFDESMBAGA1UEAxMJbG9jYWxob3N0MCAXDTI2MTEyNzIzMDg0NloYDzIxMjYxMTAzMjMwODQ2WjAUMRIwEAYDVQQDEwls"
    "b2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARNuXLaBz61BqMt39ZXXgjTXrPdh5VVEpPXNood7V42GJjBr9Q3"
    "13t6OEJmCVot3/at2/uBksbCnfy4/mG9+Ma1oz0wOzAdBgNVHQ4EFgQUk0545X0ghi9CoVj0a5jrUr8Jhd4wGgYDVR0RBBMw"
    "EYIJbG9jYWxob3N0hwR/AAABMAoGCCqGSM49BAMCA0gAMEUCIQCWbWEFCAMl0QHGZvmbe1Ni+NKMxNOB3/lt7i2fn00fZAIg"
    "ZIWG7B4OlyTGxV2JF9JYEOwBF2TvxiIvzHXTXEDxl8D610wwbrsvpVHhtSM10LzyoCRDtw=="
)
JKS_WITH_ANOTHER_PASSWORD = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQAGYnJva2VyAAABoh9EujoAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGuKsClwPDI/FGBRqVY3zs0o"
    "wNMLq5xrFVQBWpxIciT6Iog6ikbuxc0cRBPZswWTMb15JR+IbWPVAsSRAuZLwpwYWv8jlcLNe+2+TaXbX7ku+Lzd11z96oMz"
    "UjoLM7mm4b8SDC3R0Yj08RVY+AAAAAEABVguNTA5AAABRTCCAUEwgeegAwIBAgIIdAGnrXK7nPgwCgYIKoZIzj0EAwIwFDES"
    "MBAGA1UEAxMJbG9jYWxob3N0MCAXDTI2MTEyNzIzMDg0N1oYDzIxMjYxMTAzMjMwODQ3WjAUMRIwEAYDVQQDEwlsb2NhbGhv"
    "c3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQgAwJgi3FXgB2WT7z9SUDGYESwrPzLE0D1Hu8OWqQVYTcQdwdLNZ3BELEQ"
    "uFsmPIlGLVAZ37HCv4bPA3YaKah9oyEwHzAdBgNVHQ4EFgQU006lAKz9Z9QE/ppOqT1cakR+EoAwCgYIKoZIzj0EAwIDSQAw"
    "RgIhANVh1dKnkHoiuBU/EP0DBExoh/zsHq+mEloByoxXnlerAiEAhWFoMoNdPriL8VjFCOs7AQ8DUd3fEEAMROBPstqAhOir"
    "GFyd+PUu5dfMuaRuC0TEqDFwgw=="
)


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
    shake_hands(server, ssl.create_default_context(cafile=str(key_store.with_name("broker.pem"))))


@pytest.mark.parametrize("password", [PASSWORD, None])
def test_a_handshake_with_key_stores_of_the_old_type(tmp_path: Path, password: str | None) -> None:
    """That of the authorities may be read without its password, as Java does."""
    (tmp_path / "broker.jks").write_bytes(JKS)
    (tmp_path / "trust.jks").write_bytes(TRUSTED_JKS)
    authorities = {
        "trusted_certificates": str(tmp_path / "trust.jks"),
        "trusted_certificates_password": password,
    }
    certificate = ssl.DER_cert_to_PEM_cert(read_jks(TRUSTED_JKS, PASSWORD).trusted[0])
    server = server_context(config(tmp_path / "broker.jks", **authorities))
    shake_hands(server, ssl.create_default_context(cadata=certificate))


def test_a_damaged_key_store_of_the_old_type() -> None:
    for at in range(0, len(JKS), 7):
        damaged = bytearray(JKS)
        damaged[at] ^= 0x40
        with pytest.raises(ValueError, match="the password is wrong, or the file is damaged"):
            read_jks(bytes(damaged), PASSWORD)
        with contextlib.suppress(ValueError):  # nothing is verified
            read_jks(bytes(damaged), None)
        with pytest.raises(ValueError):  # noqa: PT011 - it says why
            read_jks(JKS[:at], PASSWORD)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
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
    assert server.cert_store_stats()["x509"] == 1


def test_key_stores_that_cannot_be_used(key_store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*; give its password, or provide PEM"):
        server_context(config(key_store, "wrong"))
    old = tmp_path / "old.jks"
    for data, told in (
        (b"\xce\xce\xce\xce and more", r"-srckeystore old\.jks -destkeystore old\.p12"),
        (b"\xfe\xed\xfe\xed and more", "cannot be read: the password is wrong, or the file is damaged; give"),
        (TRUSTED_JKS, "does not have a certificate with its key"),
        (JKS_WITH_ANOTHER_PASSWORD, "cannot be read: its key has another password than the key store"),
    ):
        old.write_bytes(data)
        with pytest.raises(ConfigurationError, match=told):
            server_context(config(old))
    with pytest.raises(ConfigurationError, match=r"cannot read .*; name another file"):
        server_context(config(tmp_path / "none.ks"))
