"""Where a database is, and who logs in there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

from jdbcstore.config.fields import check
from jdbcstore.config.secret import (
    PASSWORD_OPTIONS,
    check_password,
    password_from_environment,
    password_from_file,
    password_from_keyring,
    shown_url,
    split_login,
)
from jdbcstore.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DataSourceConfig:
    """A database: its URL, the user, and one way to the password.

    The password is taken out of the URL, and no representation of this object has it.
    """

    url: str | None = None
    """SQLAlchemy's or JDBC's; without the password, which becomes the one below."""
    user: str | None = None
    """In place of the URL's."""
    password: str | None = None
    password_file: str | None = None
    """A file whose first line is the password."""
    password_env: str | None = None
    """The environment variable that holds it."""
    password_keyring: str | None = None
    """The service for which the keyring of this machine holds the password of ``user``."""

    def __post_init__(self) -> None:
        check(self)
        given = [name for name in PASSWORD_OPTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigurationError(f"give only one of {' and '.join(given)}", option=given[-1])
        if self.url is not None:
            url, user, password = split_login(self.url)
            object.__setattr__(self, "url", url)
            object.__setattr__(self, "user", self.user or user)
            if password is not None and not given:
                object.__setattr__(self, "password", password)

    def __repr__(self) -> str:
        shown = self.shown()
        given = ((one.name, getattr(shown, one.name)) for one in fields(shown))
        return f"DataSourceConfig({', '.join(f'{name}={value!r}' for name, value in given if value)})"

    def reveal(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The password, read now from where it is; None if none was given.

        :raises ConfigurationError: it is not there
        """
        check_password(self.password)
        if self.password_file is not None:
            return password_from_file(Path(self.password_file))
        if self.password_env is not None:
            return password_from_environment(self.password_env, environment)
        if self.password_keyring is not None:
            return password_from_keyring(self.password_keyring, self.user)
        return self.password

    def shown(self) -> Self:
        """A copy to be shown, with stars for what is secret."""
        return replace(
            self,
            url=None if self.url is None else shown_url(self.url),
            password=None if self.password is None else "***",
        )
