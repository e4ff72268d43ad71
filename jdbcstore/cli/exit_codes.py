"""Exit codes of the command line, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum

import click

from jdbcstore.errors import (
    ConfigurationError,
    InvalidDestination,
    InvalidMessage,
    InvalidSelector,
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
    """Exit code of a command, with its description in ``--help``."""

    text: str

    def __new__(cls, value: int, text: str) -> ExitCode:
        self = int.__new__(cls, value)
        self._value_ = value
        self.text = text
        return self

    DONE = 0, "done"
    FAILED = 1, "the command failed, the schema does not match, the stores differ, or the demo lost a message"
    USAGE = 2, "invalid option, destination or message"
    CONFIGURATION = 3, "invalid URL or configuration file, or missing driver"
    UNAVAILABLE = 4, "the database is not reachable, or rejects the login"
    SCHEMA = 5, "the tables are missing, or are not ActiveMQ's"
    NOT_FOUND = 6, "not found: no message to consume, no such subscription or transaction"
    CORRUPT = 7, "some messages cannot be decoded and were skipped; the others were processed"
    LOCKED = 8, "another broker or store is the master"
    SICK = 9, "the database has a problem; doctor names it"
    INTERRUPTED = 130, "interrupted from the keyboard"
    PIPE_CLOSED = 141, "the reader closed the output"


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
    (InvalidSelector, ExitCode.USAGE),
    (MessageNotFound, ExitCode.NOT_FOUND),
    (SubscriptionNotFound, ExitCode.NOT_FOUND),
    (TransactionNotFound, ExitCode.NOT_FOUND),
)


def exit_code(error: StoreError) -> ExitCode:
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


class PipeClosed(click.ClickException):
    """The reader has closed the output."""

    exit_code = ExitCode.PIPE_CLOSED

    def __init__(self) -> None:
        super().__init__(ExitCode.PIPE_CLOSED.text)
