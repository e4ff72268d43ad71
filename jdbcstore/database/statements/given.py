"""The statements that the user gave, as the driver takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Dialect

from jdbcstore.config.placeholders import Template, parse
from jdbcstore.config.statements import BY_NAME, CLAUSES, Property, StatementValue
from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.sql import Sql, Written
from jdbcstore.database.statements.queries import MAX_SEQUENCE

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
"""Those that are told how many rows to find."""


class Replacement(NamedTuple):
    """A statement of the user's that is run, to be checked where the database can."""

    property_: Property
    template: Template


class GivenStatements:
    """Those of :attr:`StoreConfig.statements` that are run.

    :raises ConfigurationError: one takes other parameters than it is given
    """

    def __init__(self, adapter: Adapter, dialect: Dialect, given: Mapping[str, StatementValue]) -> None:
        self._adapter = adapter
        self._dialect = dialect
        self._templates = {
            name: self._template(BY_NAME[name], str(value))
            for name, value in given.items()
            if BY_NAME[name].kind is str and name not in CLAUSES and not BY_NAME[name].unused
        }

    def replacements(self) -> list[Replacement]:
        """Each that is run."""
        return [Replacement(BY_NAME[name], template) for name, template in self._templates.items()]

    def take(self, name: str, **internal: str) -> Sql | None:
        """The statement of that name, if it is given, with parameters under the names used here."""
        template = self._templates.get(name)
        if template is None:
            return None
        names = tuple(internal.get(name, name) for name in template.names)
        constants: dict[str, Any] = {"max_id": MAX_SEQUENCE} if "max_id" in names else {}
        cut = name in _PAGES and not self._adapter.limit_clause
        return Sql(lambda: Written(self._render(template), names, constants), cut=cut)

    def _template(self, property_: Property, text: str) -> Template:
        template = parse(property_.name, text, property_.parameters)
        if property_.name not in _PAGES or not self._adapter.limit_clause:
            return template
        # As ActiveMQ does. On a line of its own: the text may end in a comment.
        head, tail = f"{template.pieces[-1]}\n{self._adapter.limit_clause} ", ""
        return Template((*template.pieces[:-1], head, tail), (*template.names, "limit"))

    def _render(self, template: Template) -> str:
        mark = _MARKS[self._dialect.paramstyle]
        doubled = "format" in self._dialect.paramstyle
        return template.render(
            lambda number, _: mark.format(number),
            lambda text: text.replace("%", "%%") if doubled else text,
        )
