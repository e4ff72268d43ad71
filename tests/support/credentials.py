"""Credentials of NATS, as its operators issue them."""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

import nkeys


class Operator:
    """An operator of NATS with one account and one user, as ``nsc`` would make them."""

    def __init__(self) -> None:
        operator = _pair(nkeys.PREFIX_BYTE_OPERATOR)
        account, system = _pair(nkeys.PREFIX_BYTE_ACCOUNT), _pair(nkeys.PREFIX_BYTE_ACCOUNT)
        user = _pair(nkeys.PREFIX_BYTE_USER)
        limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        stored = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
        accounts = {
            _name(one): _token(operator, one, "account", limits=more | {"wildcards": True})
            for one, more in ((account, limits | stored), (system, limits))
        }
        preloaded = "\n".join(f"{name}: {token}" for name, token in accounts.items())
        self.settings = (
            f"operator: {_token(operator, operator, 'operator')}\nsystem_account: {_name(system)}\n"
            f"resolver: MEMORY\nresolver_preload: {{ {preloaded} }}\n"
        )
        """Lines of a server's configuration."""
        self.credentials = (
            "-----BEGIN NATS USER JWT-----\n"
            f"{_token(account, user, 'user', subs=-1, data=-1, payload=-1)}\n"
            "------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n"
            f"{bytes(user.seed).decode()}\n------END USER NKEY SEED------\n"
        )
        """The content of the user's file."""


def _pair(prefix: int) -> nkeys.KeyPair:
    return nkeys.from_seed(bytearray(nkeys.encode_seed(os.urandom(32), prefix)))


def _name(pair: nkeys.KeyPair) -> str:
    return str(pair.public_key.decode())


def _token(signer: nkeys.KeyPair, subject: nkeys.KeyPair, kind: str, **facts: Any) -> str:
    """Return the token in which one says what another may do."""
    claims = {
        "jti": os.urandom(16).hex(),
        "iat": int(time.time()),
        "iss": _name(signer),
        "sub": _name(subject),
        "name": kind,
        "nats": {"type": kind, "version": 2, **facts},
    }
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
    return f"{text}.{_encoded(signer.sign(text.encode()))}"


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
