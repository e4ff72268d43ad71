"""Every property of ActiveMQ's ``statements`` element: what it is given, what it returns, who runs it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from jdbcstore.config.fields import camel
from jdbcstore.config.placeholders import parse, split
from jdbcstore.errors import ConfigurationError

StatementValue = str | tuple[str, ...] | bool
"""One statement, several, or a flag."""

_SUB = ("container", "client_id", "sub_name")
_NEVER = "ActiveMQ defines it and never runs it either"
_UNBOUNDED = "it reads without a limit; pages are read instead, by {}"


@dataclass(frozen=True, slots=True)
class Property:
    """A property whose value is SQL, or has to do with it."""

    name: str
    """As ActiveMQ spells it."""
    parameters: tuple[str, ...] = ()
    """In the order in which ActiveMQ binds them."""
    columns: tuple[str, ...] = ()
    """Of the result; none for a statement that writes."""
    unused: str = ""
    """Why the store does not run it, if it does not."""
    any_columns: bool = False
    """Whether it may return anything, or nothing, for nobody looks."""
    kind: type = str
    """``str``: one statement; ``tuple``: several, without parameters; ``bool``: a flag."""


PROPERTIES = (
    Property(
        "addMessageStatement",
        ("id", "msgid_prod", "msgid_seq", "container", "expiration", "priority", "msg", "xid"),
    ),
    Property("updateMessageStatement", ("msg", "msgid_prod", "msgid_seq", "container")),
    Property("removeMessageStatement", ("id",)),
    Property("findMessageSequenceIdStatement", ("msgid_prod", "msgid_seq", "container"), ("ID", "PRIORITY")),
    Property(
        "findMessageStatement",
        ("msgid_prod", "msgid_seq"),
        ("MSG",),
        "it may find a message of another destination; findMessageSequenceIdStatement and"
        " findMessageByIdStatement are run instead",
    ),
    Property("findMessageByIdStatement", ("id",), ("MSG",)),
    Property("findXidByIdStatement", ("id",), ("XID",)),
    Property(
        "findAllMessagesStatement",
        ("container",),
        ("ID", "MSG"),
        _UNBOUNDED.format("findNextMessagesStatement"),
    ),
    Property("findAllMessageIdsStatement", (), ("ID", "MSGID_PROD", "MSGID_SEQ")),
    Property("findLastSequenceIdInMsgsStatement", (), ("MAX",)),
    Property("findLastSequenceIdInAcksStatement", (), ("MAX",)),
    Property("lastProducerSequenceIdStatement", ("msgid_prod",), ("MAX",)),
    Property(
        "createDurableSubStatement",
        (*_SUB, "selector", "last_acked_id", "sub_dest", "priority"),
    ),
    Property("findDurableSubStatement", _SUB, ("SELECTOR", "SUB_DEST")),
    Property(
        "findAllDurableSubsStatement",
        ("container",),
        ("SELECTOR", "SUB_NAME", "CLIENT_ID", "SUB_DEST"),
    ),
    Property("deleteSubscriptionStatement", _SUB),
    Property(
        "findAllDurableSubMessagesStatement",
        _SUB,
        ("ID", "MSG"),
        _UNBOUNDED.format("findDurableSubMessagesStatement"),
    ),
    Property("findDurableSubMessagesStatement", (*_SUB, "last_id"), ("ID", "MSG")),
    Property("findDurableSubMessagesByPriorityStatement", (*_SUB, "last_id", "priority"), ("ID", "MSG")),
    Property("nextDurableSubscriberMessageStatement", (*_SUB, "last_id"), ("ID", "MSG"), _NEVER),
    Property("durableSubscriberMessageCountStatement", _SUB, ("COUNT",)),
    Property("durableSubscriberMessageCountStatementWithPriority", _SUB, ("COUNT",)),
    Property(
        "lastAckedDurableSubscriberMessageStatement",
        _SUB,
        ("MAX",),
        "acknowledgements need each row's mark, not the highest of them",
    ),
    Property("destinationMessageCountStatement", ("container",), ("COUNT",)),
    Property("findNextMessagesStatement", ("container", "max_id", "last_id"), ("ID", "MSG")),
    Property(
        "findNextMessagesByPriorityStatement",
        ("container", "max_id", *(f"last_{priority}" for priority in reversed(range(10)))),
        ("ID", "MSG"),
    ),
    Property("findAllDestinationsStatement", (), ("CONTAINER",)),
    Property(
        "removeAllMessagesStatement",
        ("container",),
        unused="a purge removes a thousand at a time by removeMessageStatement, so that others get a turn",
    ),
    Property("removeAllSubscriptionsStatement", ("container",)),
    Property(
        "deleteOldMessagesStatementWithPriority",
        ("priority", "priority"),
        unused="cleanup removes a thousand at a time by removeMessageStatement, and knows what is"
        " acknowledged out of order",
    ),
    Property("updateDurableLastAckStatement", ("last_acked_id", *_SUB)),
    Property("updateDurableLastAckWithPriorityStatement", ("last_acked_id", *_SUB, "priority")),
    Property("updateDurableLastAckInTxStatement", ("xid", *_SUB)),
    Property("updateDurableLastAckWithPriorityInTxStatement", ("xid", *_SUB, "priority")),
    Property("clearDurableLastAckInTxStatement", (*_SUB, "priority")),
    Property(
        "updateLastPriorityAckRowOfDurableSubStatement", ("last_acked_id", *_SUB, "priority"), unused=_NEVER
    ),
    Property("selectDurablePriorityAckStatement", (*_SUB, "priority"), ("LAST_ACKED_ID",), _NEVER),
    Property("insertDurablePriorityAckStatement", (*_SUB, "priority"), unused=_NEVER),
    Property("updateXidFlagStatement", ("xid", "id")),
    Property("clearXidFlagStatement", ("new_id", "id")),
    Property("findOpsPendingOutcomeStatement", (), ("ID", "XID", "MSG")),
    Property("findAcksPendingOutcomeStatement", (), ("XID", "CONTAINER", "CLIENT_ID", "SUB_NAME")),
    Property("lockCreateStatement", any_columns=True),
    Property("lockUpdateStatement", ("time",)),
    Property("leaseObtainStatement", ("broker_name", "time", "now")),
    Property("leaseUpdateStatement", ("broker_name", "time", "holder")),
    Property("leaseOwnerStatement", (), ("BROKER_NAME", "TIME")),
    Property("currentDateTimeStatement", (), ("NOW",)),
    Property(
        "useLockCreateWhereClause",
        unused="the store's own lockCreateStatement locks the one row that there is",
        kind=bool,
    ),
    Property("useExternalMessageReferences", unused=_NEVER, kind=bool),
    Property("createSchemaStatements", kind=tuple),
    Property("createLockSchemaStatements", kind=tuple),
    Property("dropSchemaStatements", unused="the store never drops its tables", kind=tuple),
    Property("dropAckPKAlterStatementEnd"),
)

BY_NAME = {property_.name: property_ for property_ in PROPERTIES}
"""By the names that :attr:`StoreConfig.statements` has them under."""

OF_LOCKERS = (
    *("lockCreateStatement", "lockUpdateStatement"),
    *("leaseObtainStatement", "leaseUpdateStatement", "leaseOwnerStatement", "currentDateTimeStatement"),
)
"""Checked by the locker that runs them, if any does."""

CLAUSES = {"dropAckPKAlterStatementEnd"}
"""Parts of statements: nothing is bound in them, and a database cannot check them."""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_KNOWN = {_plain(name): name for name in BY_NAME}
# ActiveMQ's own setter is misspelt, and so is the attribute of its XML.
_KNOWN["removemessagestatment"] = "removeMessageStatement"


def property_name(key: str) -> str:
    """ActiveMQ's spelling of a property, whatever its user's; the key itself if there is no such."""
    return _KNOWN.get(_plain(key), key)


def normalise(
    given: Mapping[str, object], data: tuple[str, ...]
) -> tuple[dict[str, StatementValue], dict[str, str]]:
    """The statements by ActiveMQ's names, checked, and those of the properties ``data`` that are among them.

    :raises ConfigurationError: an unknown name, a value that cannot be, or two different ones
    """
    known = {**_KNOWN, **{_plain(name): name for name in data}}
    statements: dict[str, StatementValue] = {}
    lifted: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(_plain(key))
        if name is None:
            text = f"statements has no {key!r}{_suggestion(key, known)}"
            raise ConfigurationError(text, option=f"statements.{key}")
        found: dict[str, StatementValue] | dict[str, str] = lifted if name in data else statements
        try:
            checked = _check_text(key, value) if name in data else _check(BY_NAME[name], key, value)
        except ConfigurationError as error:
            error.option = f"statements.{name}"
            raise
        if found.setdefault(name, checked) != checked:  # type: ignore[arg-type]
            raise ConfigurationError(f"statements has two different values of {name}; give one")
    return statements, lifted


def _suggestion(key: str, known: Mapping[str, str]) -> str:
    for near in difflib.get_close_matches(_plain(key), known, 1):
        return f"; did you mean {camel(known[near])}?"
    return "; the guide to replacing statements lists what it may have"


def _check(property_: Property, key: str, value: object) -> StatementValue:
    if property_.kind is bool:
        return _check_flag(property_, key, value)
    if property_.kind is tuple:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError(f"{key} must be a statement or a list of them, not {value!r}")
        statements = split(texts[0]) if isinstance(value, str) else [text.strip() for text in texts]
        if not all(statements):
            raise ConfigurationError(f"{key} has an empty statement; leave it out")
        return tuple(statements)
    text = _check_text(key, value)
    if property_.name not in CLAUSES:
        parse(key, text, property_.parameters)
    return text


def _check_flag(property_: Property, key: str, value: object) -> bool:
    flag = {"true": True, "false": False}.get(str(value).strip().lower())
    if flag is None:
        raise ConfigurationError(f"{key} must be true or false, not {value!r}")
    if flag and property_.unused is _NEVER:
        raise ConfigurationError(
            f"{key} cannot be true: messages are kept in MSG, and an ActiveMQ with it has none; leave it out"
        )
    return flag


def _check_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{key} must be a text, not {value!r}; leave it out for the store's own")
    return value


def unused_statements(statements: Mapping[str, StatementValue]) -> list[tuple[str, str]]:
    """Those of :attr:`StoreConfig.statements` that are not run, in ActiveMQ's spelling, and why."""
    given = [BY_NAME[name] for name in statements]
    return [(property_.name, property_.unused) for property_ in given if property_.unused]
