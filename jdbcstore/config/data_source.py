"""A database: its URL, the user, and where the password comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self
from urllib.parse import unquote, unquote_plus

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from jdbcstore.config.fields import Options, check
from jdbcstore.errors import ConfigurationError, needing

PASSWORD_OPTIONS = ("password", "password_file", "password_env", "password_keyring")

_SQLITE_PATH = re.compile(r"[\w./-]+\.(?:db|db3|sqlite|sqlite3)")
"""Quoted in an error; any other string that is not a URL may be a misplaced password, and is not."""
_FORM = (
    "write dialect://user:password@host:port/database, with @ : / in the password percent-encoded, or"
    " sqlite:///file.db"
)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_SECRET_PARAMETER = re.compile(r"([?&;])([^=?&;]*(?:pass|pwd|secret|token)[^=?&;]*)=([^&;]*)", re.IGNORECASE)
_SECRET_ITEM = re.compile(r"([(,][^(),=?&;/@]*(?:pass|pwd|secret|token)[^(),=]*)=[^)]*\)", re.IGNORECASE)
"""In a host of Connector/J: ``address=(host=db)(password=...)``."""
_JDBC_PASSWORD = re.compile(r"([?&;:])password=(\{(?:[^}]|\}\})*\}|[^&;]*)(&|;|$)", re.IGNORECASE)
_JDBC_LOGIN = re.compile(
    # Not a port. A login ends at the last @ before parameters; if they seem to be in it, at the first.
    r"(jdbc:[\w.+:-]+//)([^:/?;@\[\]]*):(?!\d+(?:[/?;,]|$))(?:([^?;]*)|([^@]*))@",
    re.IGNORECASE,
)
"""A login as in SQLAlchemy's URLs, which Connector/J accepts."""
_ORACLE_LOGIN = re.compile(r"(jdbc:oracle:\w+:)([^/@]*)/([^@]*)@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DataSourceConfig(Options):
    """A database: its URL, the user, and one source of the password; ActiveMQ's DataSource beans.

    The password is removed from the URL, and no representation of this object contains it. Everything is
    None by default.
    """

    url: str | None = None
    """A SQLAlchemy or JDBC URL; ``memory:`` for none. A DataSource's ``url`` or ``jdbcUrl``."""
    user: str | None = None
    """In place of the URL's user. A DataSource's ``username`` or ``user``."""
    password: str | None = None
    """The password itself. A DataSource's ``password``."""
    password_file: str | None = None
    """A file with the password. Not in ActiveMQ."""
    password_env: str | None = None
    """The environment variable with the password. Not in ActiveMQ."""
    password_keyring: str | None = None
    """The service of this machine's keyring with the password of ``user``. Not in ActiveMQ."""

    def __post_init__(self) -> None:
        check(self)
        given = [name for name in PASSWORD_OPTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigurationError(f"give only one of {' and '.join(given)}", option=given[-1])
        if self.url is not None:
            url, user, password = _split_login(self.url)
            object.__setattr__(self, "url", url)
            object.__setattr__(self, "user", self.user or user)
            if password is not None and not given:
                object.__setattr__(self, "password", password)

    def __repr__(self) -> str:
        masked = self.masked()
        given = ((field.name, getattr(masked, field.name)) for field in fields(masked))
        return f"DataSourceConfig({', '.join(f'{name}={value!r}' for name, value in given if value)})"

    def reveal(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Read the password from its source; None if none is configured.

        :raises ConfigurationError: the source does not have it
        """
        if self.password is not None and is_encrypted(self.password):
            raise ConfigurationError(
                "the password is encrypted by Jasypt, which only ActiveMQ's Java can decrypt; give it in the"
                " environment variable JDBCSTORE_PASSWORD, in a password_file or in a keyring",
                option="password",
            )
        if self.password_file is not None:
            return _password_from_file(Path(self.password_file))
        if self.password_env is not None:
            return revealed(self.password_env, "password_env", environment)
        if self.password_keyring is not None:
            return _password_from_keyring(self.password_keyring, self.user)
        return self.password

    def masked(self) -> Self:
        """Return a copy for display, with ``***`` in place of secrets."""
        return replace(
            self,
            url=None if self.url is None else mask_url(self.url),
            password=None if self.password is None else "***",
        )


def parse_url(text: str) -> URL:
    """Parse a SQLAlchemy URL; ``postgres://``, which hosting services print, becomes ``postgresql://``.

    :raises ConfigurationError: the string is not a URL
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, and SQLAlchemy's own error quotes all of it.
        raise ConfigurationError(
            f"the database URL cannot be parsed; {_advice(text)}", option="url"
        ) from None
    dialect, plus, driver = url.drivername.partition("+")
    return url.set(drivername=f"postgresql{plus}{driver}") if dialect == "postgres" else url


def _advice(text: str) -> str:
    if text in ("memory", "memory:"):
        return (
            "memory: is not a database but a store that lasts as long as its process, for"
            " jdbcstore.open('memory:') and jdbcstore broker; name a database, for example sqlite:///file.db"
        )
    if re.search(r"@[^/?]*,[^/?]*/", text):
        return "write several hosts as dialect://user:password@/database?host=one:port&host=other:port"
    if _SQLITE_PATH.fullmatch(text):
        return f"for the SQLite file {text}, write sqlite:///{text}"
    return _FORM


def is_url(where: str) -> bool:
    """Return whether this is a URL; as a path it would be an odd folder below the working directory."""
    return _URL.match(where) is not None


def sqlite_url(file: str | Path) -> str:
    """Return the URL of the SQLite database in a file."""
    return URL.create("sqlite", database=str(file)).render_as_string()


def sqlite_file(url: str | None) -> Path | None:
    """Return the file of a :func:`sqlite_url`; None for any other URL."""
    try:
        parsed = make_url(url or "")
    except (ArgumentError, ValueError):
        return None
    return Path(parsed.database) if parsed.drivername == "sqlite" and parsed.database else None


def mask_url(url: str) -> str:
    """Mask a URL: without password, with ``***`` for parameters that look secret."""
    return _SECRET_ITEM.sub(r"\1=***)", _SECRET_PARAMETER.sub(r"\1\2=***", url))


def is_encrypted(password: str) -> bool:
    """Return whether Jasypt has encrypted a password: ``ENC(...)``."""
    return password.startswith("ENC(") and password.endswith(")")


def _split_login(url: str) -> tuple[str, str | None, str | None]:
    """Split a URL: itself without password, the user if removed with it, and the password."""
    if url == "memory:":
        return url, None, None
    try:
        url.encode()
    except UnicodeEncodeError:  # of a command line, or an environment, in another encoding
        raise ConfigurationError("the database URL is not UTF-8; percent-encode it", option="url") from None
    if url.lower().startswith("jdbc:"):
        return _split_jdbc(url)
    parsed = parse_url(url)
    if parsed.password is None:
        return url, None, None
    return parsed._replace(password=None).render_as_string(hide_password=False), None, str(parsed.password)


def _split_jdbc(url: str) -> tuple[str, str | None, str | None]:
    login = _ORACLE_LOGIN.match(url)
    if login is not None:
        return f"{login[1]}@{url[login.end() :]}", login[2] or None, login[3]
    login = _JDBC_LOGIN.match(url)
    if login is not None:
        password = login[3] if login[3] is not None else login[4]
        return f"{login[1]}{url[login.end() :]}", unquote(login[2]) or None, unquote(password)
    login = _JDBC_PASSWORD.search(url)
    if login is None:
        return url, None, None
    first, password, after = login.groups()
    rest = url[: login.start()] + (first if after else "") + url[login.end() :]
    if url.lower().startswith("jdbc:sqlserver:"):
        password = unbraced(password)
    # DB2's properties begin with a colon.
    return (
        rest.removesuffix(":"),
        None,
        unquote_plus(password) if first in "?&" and after != ";" else password,
    )


def revealed(variable: str, option: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the secret in the environment variable that an option names.

    :raises ConfigurationError: it is not set
    """
    try:
        return environment[variable]
    except KeyError:
        name = option.rpartition(".")[2]
        raise ConfigurationError(
            f"{name} names the environment variable {variable}, which is not set; export it", option=option
        ) from None


def unbraced(value: str) -> str:
    """Return a property of SQL Server's JDBC driver, which may be in braces for its semicolons."""
    return value[1:-1].replace("}}", "}") if value.startswith("{") and value.endswith("}") else value


def _password_from_file(path: Path) -> str:
    """Read a password file, without the end of its last line."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"cannot read password_file {path}: {reason}; write the password into it",
            option="password_file",
        ) from error


def _password_from_keyring(service: str, user: str | None) -> str:
    with needing("password_keyring needs a package", "keyring", "password_keyring"):
        import keyring
        from keyring.errors import KeyringError
    if user is None:
        raise ConfigurationError("password_keyring needs user too; give both", option="password_keyring")
    try:
        password = keyring.get_password(service, user)
    except KeyringError as error:
        text = f"the keyring does not answer: {error}; unlock it, or use a password_file"
        raise ConfigurationError(text, option="password_keyring") from error
    if password is None:
        text = f"the keyring has no password of {user} for {service}; run: keyring set {service} {user}"
        raise ConfigurationError(text, option="password_keyring")
    return password
