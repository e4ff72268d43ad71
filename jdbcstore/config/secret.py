"""Passwords: where they come from, and how a URL is shown without one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote_plus

from jdbcstore.config.urls import parse_url
from jdbcstore.errors import ConfigurationError

PASSWORD_OPTIONS = ("password", "password_file", "password_env", "password_keyring")

_PARAMETER = re.compile(r"([?&;])([^=?&;]*(?:pass|pwd|secret|token)[^=?&;]*)=([^&;]*)", re.IGNORECASE)
_JDBC_PASSWORD = re.compile(r"([?&;])password=([^&;]*)(&|;|$)", re.IGNORECASE)
_ORACLE_LOGIN = re.compile(r"(jdbc:oracle:\w+:)([^/@]*)/([^@]*)@", re.IGNORECASE)


def split_login(url: str) -> tuple[str, str | None, str | None]:
    """A SQLAlchemy or JDBC URL without its password; the user if he goes with it, and the password."""
    if url == "memory:":
        return url, None, None
    if url.lower().startswith("jdbc:"):
        return _split_jdbc(url)
    parsed = parse_url(url)
    if parsed.password is None:
        return url, None, None
    return parsed._replace(password=None).render_as_string(hide_password=False), None, str(parsed.password)


def _split_jdbc(url: str) -> tuple[str, str | None, str | None]:
    found = _ORACLE_LOGIN.match(url)
    if found is not None:
        return f"{found[1]}@{url[found.end() :]}", found[2] or None, found[3]
    found = _JDBC_PASSWORD.search(url)
    if found is None:
        return url, None, None
    first, password, after = found.groups()
    rest = url[: found.start()] + (first if after else "") + url[found.end() :]
    return rest, None, password if first == ";" or after == ";" else unquote_plus(password)


def shown_url(url: str) -> str:
    """A URL whose password was split off, without what else in it may be secret."""
    return _PARAMETER.sub(r"\1\2=***", url)


def check_password(password: str | None) -> None:
    """:class:`ConfigurationError` if only ActiveMQ itself could read this password."""
    if password is not None and password.startswith("ENC(") and password.endswith(")"):
        raise ConfigurationError(
            "the password is encrypted by Jasypt, which only ActiveMQ's Java opens; give it in the"
            " environment variable JDBCSTORE_PASSWORD, in a password_file or in a keyring",
            option="password",
        )


def password_from_file(path: Path) -> str:
    """The text of a file, but for the end of its line."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"cannot read password_file {path}: {reason}; write the password into it",
            option="password_file",
        ) from error


def password_from_environment(name: str, environment: Mapping[str, str]) -> str:
    try:
        return environment[name]
    except KeyError:
        raise ConfigurationError(
            f"password_env names the environment variable {name}, which is not set; export it",
            option="password_env",
        ) from None


def password_from_keyring(service: str, user: str | None) -> str:
    """What a keyring holds for a user of a service."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise ConfigurationError(
            "password_keyring needs a package; run: pip install 'jdbcstore[keyring]'",
            option="password_keyring",
        ) from error
    if user is None:
        raise ConfigurationError("password_keyring needs user too", option="password_keyring")
    try:
        password = keyring.get_password(service, user)
    except KeyringError as error:
        raise ConfigurationError(
            f"the keyring does not answer: {error}; unlock it, or use a password_file",
            option="password_keyring",
        ) from error
    if password is None:
        raise ConfigurationError(
            f"the keyring has no password of {user} for {service}; run: keyring set {service} {user}",
            option="password_keyring",
        )
    return password
