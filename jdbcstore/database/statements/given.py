"""The user's own statements: as the driver takes them, checked, and with the rows that the store expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Dialect

from jdbcstore.config.statements import BY_NAME, CLAUSES, Property, StatementValue, Template, parse
from jdbcstore.database.adapters.base import Adapter, Failure
from jdbcstore.database.adapters.sql import Row, Sql, SqlText
from jdbcstore.database.statements.builder import Fetch, Query, Statement
from jdbcstore.errors import ConfigurationError

MAX_SEQUENCE = 2**63 - 1
_MARKS = {
    "qmark": "?",
    "format": "%s",
    "pyformat": "%s",
    "numeric": ":{}",
    "named": ":p{}",
    "numeric_dollar": "${}",
}
_PAGES = {
    "findNextMessagesStatement",
    "findNextMessagesByPriorityStatement",
    "findAllMessageIdsStatement",
    "findDurableSubMessagesStatement",
    "findDurableSubMessagesByPriorityStatement",
}
"""Queries with a row limit."""


class Replacement(NamedTuple):
    """A user's statement that is used, to be checked by databases that support it."""

    property_: Property
    template: Template


class GivenStatements:
    """The statements in :attr:`StoreConfig.statements` that are used.

    :raises ConfigurationError: one has other parameters than it is given
    """

    def __init__(self, adapter: Adapter, dialect: Dialect, given: Mapping[str, StatementValue]) -> None:
        self._adapter = adapter
        self._dialect = dialect
        self._templates = {
            name: self._template(BY_NAME[name], str(value))
            for name, value in given.items()
            if BY_NAME[name].kind is str and name not in CLAUSES and not BY_NAME[name].unused
        }

    def __eq__(self, other: object) -> bool:
        """Return whether the others are the same texts, for the same kind of server or not."""
        return isinstance(other, GivenStatements) and self._templates == other._templates

    def __hash__(self) -> int:
        return hash(tuple(self._templates.items()))

    def replacements(self) -> list[Replacement]:
        """Return all of them."""
        return [Replacement(BY_NAME[name], template) for name, template in self._templates.items()]

    def statement(self, name: str, **internal: str) -> Sql | None:
        """Return the statement of that name, if it is given, with its parameters renamed by ``internal``."""
        template = self._templates.get(name)
        if template is None:
            return None
        names = tuple(internal.get(name, name) for name in template.names)
        constants: dict[str, Any] = {"max_id": MAX_SEQUENCE} if "max_id" in names else {}
        cut = name in _PAGES and not self._adapter.limit_clause
        return Sql(lambda: SqlText(self._render(template), names, constants), cut=cut)

    def _template(self, property_: Property, text: str) -> Template:
        template = parse(property_.name, text, property_.parameters)
        if property_.name not in _PAGES or not self._adapter.limit_clause:
            return template
        # As ActiveMQ does. On its own line, because the text may end in a comment.
        head, tail = f"{template.pieces[-1]}\n{self._adapter.limit_clause} ", ""
        return Template((*template.pieces[:-1], head, tail), (*template.names, "limit"))

    def _render(self, template: Template) -> str:
        mark = _MARKS[self._dialect.paramstyle]
        doubled = "format" in self._dialect.paramstyle
        return template.render(
            lambda number, _: mark.format(number),
            lambda text: text.replace("%", "%%") if doubled else text,
        )


def check_replacements(
    replacements: Iterable[Replacement],
    adapter: Adapter,
    cursor: Any,
    driver_errors: tuple[type[Exception], ...],
) -> None:
    """Have the database prepare each statement. The driver's error for a lost connection is not translated.

    :raises ConfigurationError: the database refuses one, or it would return other columns than needed
    """
    for property_, template in replacements:
        reads = bool(property_.columns)
        try:
            count = adapter.check_statement(cursor, template, reads=reads)
        except driver_errors as error:
            if adapter.classify(error) in (Failure.DISCONNECTED, Failure.READ_ONLY):
                raise
            reason = " ".join(str(error).split())
            behind = f" ({adapter.limit_clause} ? is appended to it)" if "limit" in template.names else ""
            raise ConfigurationError(
                f"{property_.name}: the database refuses it{behind}: {reason}; correct it, or leave it out",
                option=f"statements.{property_.name}",
            ) from error
        if count is not None and not property_.any_columns and count != len(property_.columns):
            wanted = f"{len(property_.columns)}: {', '.join(property_.columns)}" if reads else "none"
            raise ConfigurationError(
                f"{property_.name} returns {count} columns, and must return {wanted}",
                option=f"statements.{property_.name}",
            )


def picked(sql: Sql, columns: tuple[int | None, ...], *, sort: bool = False) -> Query:
    """Return columns of a statement in another order, None for NULL; ``sort`` if its rows have no order."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        rows = [
            tuple([None if column is None else row[column] for column in columns])
            for row in fetch(sql, **values)
        ]
        return sorted(rows, key=lambda row: row[:2]) if sort else rows

    return rows


def message_by_name(name: Statement, place: Sql) -> Query:
    """IDs and priorities by a statement that does not exclude messages in doubt; ``place`` does."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        container = values["container"]
        rows = fetch(name, **values)
        return [row for row in rows if fetch(place, id_=row[0], container=container)]

    return rows


def message_by_id(place: Sql, message: Sql) -> Query:
    """Return a message's ID and MSG, by a statement that does not check the destination; ``place`` does."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        return [
            (id_, blob) for id_, _ in fetch(place, **values) for (blob,) in fetch(message, id_=values["id_"])
        ]

    return rows


def subscription_rows(marks: Sql, description: Sql) -> Query:
    """Return a subscription's rows, with SELECTOR and SUB_DEST from a statement that returns only those."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        rows = fetch(marks, **values)
        described = fetch(description, **values) if rows else []
        return [(*row[:4], *described[0]) for row in rows] if described else []

    return rows


def one_lane(sql: Sql) -> Query:
    """One priority's messages, by a statement with a position in each of ten lanes."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        places = {f"last_{lane}": MAX_SEQUENCE for lane in range(10)}
        places[f"last_{values['priority']}"] = values["after"]
        return fetch(sql, **values, **places)

    return rows


def pending_page(page: Sql, still: Sql) -> Query:
    """Return a subscription's messages, by a statement that knows LAST_ACKED_ID only.

    ``still`` finds the IDs of pending messages in between. It is queried after the page, so that an
    acknowledgement made before is seen, wherever it is stored by then.
    """

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        rows: list[Row] = []
        limit, more = values["limit"], True
        while more and len(rows) < limit:
            read = fetch(page, **values)
            more = len(read) == limit
            if read:
                values["up_to"] = read[-1][0]
                ids = {id_ for (id_,) in fetch(still, **values)}
                rows += [row for row in read if row[0] in ids]
                values["after"] = values["up_to"]
        return rows[:limit]

    return rows


def pending_count(behind_marks: Sql, ahead: Sql, in_doubt: Statement, own: Statement) -> Query:
    """Return the number of pending messages, by a statement that knows LAST_ACKED_ID only.

    It may count messages in doubt, so ``own`` is used if there are any.
    """

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        if fetch(in_doubt, **{**values, "after": -1, "limit": 1}):
            return fetch(own, **values)
        [(count,)] = fetch(behind_marks, **values)
        [(acknowledged,)] = fetch(ahead, **values)
        return [(max(0, int(count) - int(acknowledged)),)]

    return rows


def narrowed(own: Sql, other: Sql, columns: tuple[tuple[int, int], ...]) -> Query:
    """Return the store's rows that equal a row of another statement in these pairs of columns."""

    def rows(fetch: Fetch, **values: Any) -> list[Row]:
        keys = {tuple([row[theirs] for _, theirs in columns]) for row in fetch(other, **values)}
        ours = fetch(own, **values) if keys else []
        return [row for row in ours if tuple([row[mine] for mine, _ in columns]) in keys]

    return rows
