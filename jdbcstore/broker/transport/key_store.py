"""Certificates and keys of a connector, in PEM files or in Java key stores: PKCS #12, or JKS."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from typing import NamedTuple

from jdbcstore.broker.transport.jks import MAGIC, read_jks
from jdbcstore.errors import ConfigurationError, installation

_JCEKS = b"\xce\xce\xce\xce"
_PEM = b"-----BEGIN"


def load_identity(context: ssl.SSLContext, path: str, key: str | None, password: str | None) -> None:
    """Load a certificate with its chain and key: PEM files of both, or a key store.

    :raises ConfigurationError: it cannot be read, or has another format
    """
    data = _read(path, "certificate", "the certificate")
    if _is_pem(data):
        try:
            context.load_cert_chain(path, key, password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"the certificate {path} and its key cannot be used: {error}; provide PEM"
                " files, the key without a passphrase, or with certificate_password",
                option="certificate",
            ) from error
        return
    chain, private = _pem_of(path, data, password)
    # Python's ssl reads only files; this file is never on a disk.
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, private + chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    except (OSError, ssl.SSLError) as error:
        text = f"the certificate in the key store {path} cannot be used: {error}; provide PEM files"
        raise ConfigurationError(text, option="certificate") from error
    finally:
        os.close(descriptor)


def load_authorities(context: ssl.SSLContext, path: str, password: str | None) -> None:
    """Load the authorities that sign clients' certificates: a PEM file, or a key store.

    :raises ConfigurationError: it cannot be read, or has another format
    """
    data = _read(path, "trusted_certificates", "the certificates in")
    try:
        if _is_pem(data):
            context.load_verify_locations(path)
        else:
            context.load_verify_locations(cadata=_authorities_of(path, data, password).decode())
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"the certificates in {path} cannot be used: {error}; provide PEM",
            option="trusted_certificates",
        ) from error


def _read(path: str, option: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        text = f"cannot read {what} {path}: {error.strerror}; name another file"
        raise ConfigurationError(text, option=option) from error


def _is_pem(data: bytes) -> bool:
    return _PEM in data or (data[:1] != b"0" and not data.startswith((MAGIC, _JCEKS)))


class _KeyStore(NamedTuple):
    """The content of a key store, as PEM."""

    key: bytes | None
    chain: bytes
    """The certificates of the key, its own first."""
    others: bytes


def _pem_of(path: str, data: bytes, password: str | None) -> tuple[bytes, bytes]:
    """Return the chain and the key in a key store, as PEM."""
    store = _loaded(path, data, password, "certificate")
    if store.key is None or not store.chain:
        text = f"the key store {path} does not have a certificate with its key; name another key store"
        raise ConfigurationError(text, option="certificate")
    return store.chain, store.key


def _authorities_of(path: str, data: bytes, password: str | None) -> bytes:
    store = _loaded(path, data, password, "trusted_certificates")
    return store.chain + store.others


def _loaded(path: str, data: bytes, password: str | None, option: str) -> _KeyStore:
    """Return the content of a key store.

    :raises ConfigurationError: it has another format or password, or a package is not installed
    """
    if data.startswith(_JCEKS):
        name = Path(path)
        raise ConfigurationError(
            f"{path} is a key store of the type JCEKS; convert it with keytool -importkeystore "
            f"-srckeystore {name.name} -destkeystore {name.stem}.p12 -deststoretype pkcs12, and name "
            "the result",
            option=option,
        )
    try:
        return (_from_jks if data.startswith(MAGIC) else _from_pkcs12)(data, password)
    except ImportError as error:
        text = f"key stores need cryptography; run: {installation('artemis')}"
        raise ConfigurationError(text, option=option) from error
    except ValueError as error:
        text = f"the key store {path} cannot be read: {error}; give its password, or provide PEM files"
        raise ConfigurationError(text, option=option) from error


def _from_pkcs12(data: bytes, password: str | None) -> _KeyStore:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    store = load_pkcs12(data, None if password is None else password.encode())
    certificates = [
        certificate for certificate in (store.cert, *store.additional_certs) if certificate is not None
    ]
    pem = b"".join(certificate.certificate.public_bytes(Encoding.PEM) for certificate in certificates)
    if store.key is None or store.cert is None:
        return _KeyStore(None, b"", pem)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _KeyStore(key, pem, b"")


def _from_jks(data: bytes, password: str | None) -> _KeyStore:
    entries = read_jks(data, password)
    key = None if entries.key is None else _pem("PRIVATE KEY", entries.key)
    chain, others = (
        b"".join(_pem("CERTIFICATE", certificate) for certificate in some)
        for some in (entries.chain, entries.trusted)
    )
    return _KeyStore(key, chain, others)


def _pem(label: str, der: bytes) -> bytes:
    text = base64.encodebytes(der).decode().replace("\n", "")
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()
