"""The SQL properties of ActiveMQ's ``statements`` element, and the parameters of SQL that replaces them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jdbcstore.config.fields import camel
from jdbcstore.errors import ConfigurationError

StatementValue = str | tuple[str, ...] | bool
"""One statement, several, or a flag."""

_SUB = ("container", "client_id", "sub_name")
_NEVER = "ActiveMQ defines it but never runs it"
_UNBOUNDED = "it reads without a limit; {} reads pages instead"

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`   # literals and quoted names
    | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$                    # PostgreSQL's other literals
    | --[^\n]* | /\*.*?\*/
    | ::                                                   # PostgreSQL's cast
    | (?P<end>;)
    | (?P<mark>\?)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"(?i)(begin|declare)\b")
"""Oracle's blocks end in a semicolon of their own."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property whose value is SQL, or a flag that changes SQL."""

    name: str
    """The name in ActiveMQ's spelling."""
    parameters: tuple[str, ...] = ()
    """The parameters, in the order in which ActiveMQ binds them."""
    columns: tuple[str, ...] = ()
    """The columns of the result; none for a statement that writes."""
    unused: str = ""
    """Reason why the store does not run it; "" if it does."""
    any_parameters: bool = False
    """Whether it may have any parameters, because it is not run."""
    any_columns: bool = False
    """Whether it may return any columns, or none, because the result is not read."""
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
        "acknowledgements need the LAST_ACKED_ID of each row, not the highest",
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
        unused="a purge deletes a thousand messages at a time with removeMessageStatement, so that other"
        " writes get a turn",
    ),
    Property("removeAllSubscriptionsStatement", ("container",)),
    Property(
        "deleteOldMessagesStatementWithPriority",
        ("priority", "priority"),
        unused="cleanup deletes a thousand messages at a time with removeMessageStatement, and considers"
        " acknowledgements out of order",
    ),
    Property(
        "deleteOldMessagesStatement",
        ("now",),
        unused="ActiveMQ has had deleteOldMessagesStatementWithPriority since 5.4, and here cleanup deletes"
        " a thousand messages at a time with removeMessageStatement",
        any_parameters=True,
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
        unused="the store's own lockCreateStatement locks the only row",
        kind=bool,
    ),
    Property("useExternalMessageReferences", unused=_NEVER, kind=bool),
    Property("createSchemaStatements", kind=tuple),
    Property("createLockSchemaStatements", kind=tuple),
    Property("dropSchemaStatements", unused="the store never drops its tables", kind=tuple),
    Property("dropAckPKAlterStatementEnd"),
)

BY_NAME = {property_.name: property_ for property_ in PROPERTIES}
"""The properties by their names in :attr:`StoreConfig.statements`."""

OF_LOCKERS = (
    *("lockCreateStatement", "lockUpdateStatement"),
    *("leaseObtainStatement", "leaseUpdateStatement", "leaseOwnerStatement", "currentDateTimeStatement"),
)
"""Properties that a locker runs, and checks."""

CLAUSES = {"dropAckPKAlterStatementEnd"}
"""Properties that are a part of a statement: without parameters, and not checked by the database."""


def plain(name: str) -> str:
    """Return a property's name without what its spellings differ in."""
    return name.replace("_", "").replace("-", "").lower()


_KNOWN = {plain(name): name for name in BY_NAME}
# ActiveMQ's own setter is misspelt, and so is the attribute of its XML; the others are of older versions.
_KNOWN["removemessagestatment"] = "removeMessageStatement"
_KNOWN["updatelastackofdurablesubstatement"] = "updateDurableLastAckStatement"
_KNOWN["updatelastackstatement"] = "updateDurableLastAckStatement"


def property_name(key: str) -> str:
    """Return a property's name in ActiveMQ's spelling, from any spelling; the key itself if it is unknown."""
    return _KNOWN.get(plain(key), key)


def normalise(
    given: Mapping[str, object], data: tuple[str, ...]
) -> tuple[dict[str, StatementValue], dict[str, str]]:
    """Return the statements by ActiveMQ's names, and the values of the properties ``data`` given among them.

    :raises ConfigurationError: an unknown name, a wrong value, or two different values of one property
    """
    known = {**_KNOWN, **{plain(name): name for name in data}}
    statements: dict[str, StatementValue] = {}
    lifted: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(plain(key))
        if name is None:
            text = f"statements has no {key!r}{_suggestion(key, known)}"
            raise ConfigurationError(text, option=f"statements.{key}")
        kept: dict[str, StatementValue] | dict[str, str] = lifted if name in data else statements
        try:
            checked = _check_text(key, value) if name in data else _check(BY_NAME[name], key, value)
        except ConfigurationError as error:
            error.option = f"statements.{name}"
            raise
        if kept.setdefault(name, checked) != checked:  # type: ignore[arg-type]
            raise ConfigurationError(f"statements has two different values of {name}; give one of them")
    return statements, lifted


def _suggestion(key: str, known: Mapping[str, str]) -> str:
    for near in difflib.get_close_matches(plain(key), known, 1):
        return f"; did you mean {camel(known[near])}?"
    return "; the guide to replacing statements lists the properties"


def _check(property_: Property, key: str, value: object) -> StatementValue:
    if property_.kind is bool:
        return _check_flag(property_, key, value)
    if property_.kind is tuple:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError(f"{key} must be a statement or a list of statements, not {value!r}")
        statements = split(texts[0]) if isinstance(value, str) else [text.strip() for text in texts]
        if not all(statements):
            raise ConfigurationError(f"{key} contains an empty statement; remove it")
        return tuple(statements)
    text = _check_text(key, value)
    if property_.name not in CLAUSES and not property_.any_parameters:
        parse(key, text, property_.parameters)
    return text


def _check_flag(property_: Property, key: str, value: object) -> bool:
    flag = {"true": True, "false": False}.get(str(value).strip().lower())
    if flag is None:
        raise ConfigurationError(f"{key} must be true or false, not {value!r}")
    if flag and property_.unused is _NEVER:
        raise ConfigurationError(
            f"{key} cannot be true: the store keeps messages in MSG, where ActiveMQ then has none; remove it"
        )
    return flag


def _check_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{key} must be a string, not {value!r}; leave it out for the store's own")
    return value


def unused_statements(statements: Mapping[str, StatementValue]) -> list[tuple[str, str]]:
    """Return the names of replaced statements that the store does not run, each with the reason."""
    given = [BY_NAME[name] for name in statements]
    return [(property_.name, property_.unused) for property_ in given if property_.unused]


@dataclass(frozen=True, slots=True)
class Template:
    """A statement split at its parameters: ``pieces`` has one string more than ``names``."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    def render(self, mark: Callable[[int, str], str], escape: Callable[[str], str] = str) -> str:
        """Render the statement with ``mark(number from 1, name)`` for each parameter."""
        parts = [escape(self.pieces[0])]
        for number, (name, piece) in enumerate(zip(self.names, self.pieces[1:], strict=True), 1):
            parts += [mark(number, name), escape(piece)]
        return "".join(parts)


def parse(what: str, text: str, parameters: tuple[str, ...]) -> Template:
    """Find the parameters of a statement, outside literals, quoted names and comments.

    :param what: the name of the statement in errors
    :param parameters: the parameters that will be bound, in the order of ``?``
    :raises ConfigurationError: it has others, or fewer
    """
    text = text.strip()
    if not _BLOCK.match(text):
        text = text.rstrip("; \t\r\n")
    pieces, names, place = [], [], 0
    for token in _TOKEN.finditer(text):
        if token["mark"] or token["name"]:
            pieces.append(text[place : token.start()])
            names.append(token["name"] or "?")
            place = token.end()
    pieces.append(text[place:])
    return Template(tuple(pieces), _resolve(what, names, parameters))


def _resolve(what: str, marks_found: list[str], parameters: tuple[str, ...]) -> tuple[str, ...]:
    wanted = f"{what} takes {_list(parameters)}"
    marks = marks_found.count("?")
    if marks and marks < len(marks_found):
        raise ConfigurationError(
            f"{wanted}, but mixes ? with :{next(n for n in marks_found if n != '?')}; use one"
        )
    if marks or not marks_found:
        if marks != len(parameters):
            given = f"has {marks} times ?" if marks else "has no parameter"
            raise ConfigurationError(f"{wanted}, but {given}")
        return parameters
    unknown = sorted(set(marks_found) - set(parameters))
    missing = [name for name in parameters if name not in marks_found]
    if unknown:
        raise ConfigurationError(f"{wanted}, but has :{', :'.join(unknown)}")
    if missing:
        raise ConfigurationError(f"{wanted}, but lacks :{', :'.join(missing)}")
    return tuple(marks_found)


def _list(parameters: tuple[str, ...]) -> str:
    if not parameters:
        return "no parameters"
    count = f"{len(parameters)} parameters" if len(parameters) > 1 else "1 parameter"
    return f"{count} (? in the order {', '.join(parameters)}; or :{parameters[0]} by name)"


def split(text: str) -> list[str]:
    """Split a string into its statements, which are separated by semicolons."""
    statements, start = [], 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            statements.append(text[start : token.start()])
            start = token.end()
    statements.append(text[start:])
    return [stripped for statement in statements if (stripped := statement.strip())]
