"""Artemis's masked passwords: ``ENC(...)``, encrypted with a key that is known or given, or hashed."""

from __future__ import annotations

import hashlib
import hmac

from jdbcstore.errors import ConfigurationError, needing

_BEGIN, _END = "ENC(", ")"
_KEY = "clusterpassword"
"""The key that Artemis has without another."""
_BLOCK = 8
_KEY_PARAMETER = "key"


def unwrapped(text: str) -> str | None:
    """Return the content of ``ENC(...)``; None if it is not masked."""
    masked = text.strip()
    if masked.startswith(_BEGIN) and masked.endswith(_END):
        return masked.removeprefix(_BEGIN).removesuffix(_END)
    return None


class Codec:
    """Decrypts masked passwords; Artemis's own codec, with the parameters of ``password-codec``.

    :param text: the class and its parameters, ``a.b.Codec;key=value``; empty for Artemis's own
    :raises ConfigurationError: it is another class
    """

    def __init__(self, text: str = "") -> None:
        name, *parameters = (part.strip() for part in text.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        if name and not name.endswith("DefaultSensitiveStringCodec"):
            raise ConfigurationError(
                f"{name} is Java code, which alone can read the passwords of this file; write them in plain"
                " text, in a file that only the broker may read"
            )
        self._key = given.get(_KEY_PARAMETER) or _KEY

    def decode(self, masked: str) -> str:
        """Return the password of a masked one, without ``ENC(`` and ``)``.

        :raises ConfigurationError: it was not encrypted with this key, or a package is not installed
        """
        try:
            number = int(masked, 16)
        except ValueError:
            raise ConfigurationError(
                "a masked password is a hexadecimal number; mask it again with artemis mask"
            ) from None
        size = (number + (number < 0)).bit_length() // 8 + 1
        size += -size % _BLOCK
        try:
            return _decrypt(number.to_bytes(size, "big", signed=True), self._key.encode()).decode()
        except (ValueError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                "a masked password cannot be decrypted with this key; give the key of password-codec, or mask"
                " it again with artemis mask"
            ) from error


def _decrypt(data: bytes, key: bytes) -> bytes:
    with needing("masked passwords of Artemis need cryptography", "artemis"):
        from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.modes import ECB
        from cryptography.hazmat.primitives.padding import PKCS7
    decryptor = Cipher(Blowfish(key), ECB()).decryptor()  # noqa: S305 - it is Artemis's format
    unpadder = PKCS7(8 * _BLOCK).unpadder()
    return unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()


def is_hash(masked: str) -> bool:
    """Return whether a masked password is a hash: ``iterations:salt:hash``."""
    return masked.count(":") == 2


def verify(masked: str, password: str) -> bool:
    """Return whether a hash is that of a password; a damaged one is that of none."""
    iterations, salt, known = masked.split(":")
    try:
        hashed = bytes.fromhex(known)
        digest = hashlib.pbkdf2_hmac(
            "sha1", password.encode(), bytes.fromhex(salt), int(iterations), dklen=len(hashed)
        )
    except ValueError:
        return False
    return hmac.compare_digest(digest, hashed)
