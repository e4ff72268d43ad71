"""Exit codes, and the one line that an error becomes."""

from __future__ import annotations

from enum import IntEnum

import click

from jdbcstore.errors import (
    ConfigurationError,
    InvalidDestination,
    InvalidMessage,
    JournalInUse,
    JournalPending,
    LockLost,
    MessageNotFound,
    NotMaster,
    SchemaError,
    StoreError,
    StoreUnavailable,
    SubscriptionNotFound,
    TransactionNotFound,
)


class ExitCode(IntEnum):
    """What a script learns; the text of each is what ``--help`` says about it."""

    text: str

    def __new__(cls, value: int, text: str) -> ExitCode:
        self = int.__new__(cls, value)
        self._value_ = value
        self.text = text
        return self

    DONE = 0, "done"
    FAILED = 1, "the command failed, the schema does not fit, the stores differ, or the demo lost a message"
    USAGE = 2, "a wrong option, destination or message"
    CONFIGURATION = 3, "the URL, the configuration file or a driver cannot work"
    UNAVAILABLE = 4, "the database does not answer, or refuses the login"
    SCHEMA = 5, "the tables are missing, or are not ActiveMQ's"
    NOTHING = 6, "nothing there: no message to consume, no such subscription or transaction"
    CORRUPT = 7, "some messages do not decode and were skipped; the others were handled"
    LOCKED = 8, "another broker or store is the master"
    INTERRUPTED = 130, "interrupted from the keyboard"
    PIPE_CLOSED = 141, "the reader of the output went away"


_CODES: tuple[tuple[type[StoreError], ExitCode], ...] = (
    (ConfigurationError, ExitCode.CONFIGURATION),
    (JournalPending, ExitCode.CONFIGURATION),
    (JournalInUse, ExitCode.LOCKED),
    (StoreUnavailable, ExitCode.UNAVAILABLE),
    (SchemaError, ExitCode.SCHEMA),
    (NotMaster, ExitCode.LOCKED),
    (LockLost, ExitCode.LOCKED),
    (InvalidDestination, ExitCode.USAGE),
    (InvalidMessage, ExitCode.USAGE),
    (MessageNotFound, ExitCode.NOTHING),
    (SubscriptionNotFound, ExitCode.NOTHING),
    (TransactionNotFound, ExitCode.NOTHING),
)


def exit_code(error: StoreError) -> ExitCode:
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


class PipeClosed(click.ClickException):
    """Nobody reads the output any more."""

    exit_code = ExitCode.PIPE_CLOSED

    def __init__(self) -> None:
        super().__init__("the reader of the output went away")
