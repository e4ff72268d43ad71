"""Column types that a configuration gives in place of the vendor's own, and the names that fit them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jdbcstore.errors import ConfigurationError

NAME_LENGTH = 250
"""Characters that each name column holds where no type is configured."""
_UNBOUNDED = 65_535
"""Characters of a type that says no length; no name can have more in a MSG column."""

_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_ ]*(\([A-Za-z0-9_, ]+\)[A-Za-z0-9_ ]*)?")
_LENGTH = re.compile(r"\( *(\d+)")


@dataclass(frozen=True, slots=True)
class NameLengths:
    """How many characters the name columns hold."""

    container: int = NAME_LENGTH
    """CONTAINER: a destination with its prefix."""
    message_id: int = NAME_LENGTH
    """MSGID_PROD: the producer's part of a message id."""
    string_id: int = NAME_LENGTH
    """CLIENT_ID, SUB_NAME, SELECTOR and SUB_DEST."""


def check_type(option: str, text: str) -> None:
    """:class:`ConfigurationError` unless the text can be a column type and nothing else."""
    if not _TYPE.fullmatch(text):
        raise ConfigurationError(
            f"{option} must be a column type such as VARCHAR(128) or NUMBER(19, 0), of letters, digits,"
            f" blanks, commas and one pair of parentheses, not {text!r}",
            option=option,
        )


def length_of(text: str | None) -> int:
    """The characters that a type of this text holds."""
    if text is None:
        return NAME_LENGTH
    found = _LENGTH.search(text)
    return int(found[1]) if found else _UNBOUNDED
