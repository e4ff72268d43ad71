"""The statement builder: conditions that statements share, and their compilation for one vendor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple, Self, cast

from sqlalchemy import (
    BigInteger,
    Dialect,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.sql import ClauseElement, ColumnElement

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.adapters.sql import Row, Sql, SqlText, with_marks
from jdbcstore.database.schema import BESIDE
from jdbcstore.database.tables import Tables, message_index

ONE: ColumnElement[int] = literal_column("1")
ZERO: ColumnElement[int] = literal_column("0")
LOWEST: ColumnElement[str] = literal_column("' '")
"""Less than every XID. Some planners do not use the index for IS NOT NULL."""

Fetch = Callable[..., list[Row]]
"""(statement, **values) -> its rows."""


Query = Callable[..., list[Row]]
"""(fetch, **values) -> the rows of several statements, which it fetches in place of one."""
Statement = Sql | Query


class LaneQueries(NamedTuple):
    """The queries for one priority, which is a lane of a destination.

    The lowest lane has its own with a range: for an equality SQLite would choose the index on PRIORITY, and
    scan all messages without a priority, which have 0.
    """

    lowest: Statement
    other: Statement

    def of(self, priority: int) -> Statement:
        return self.other if priority else self.lowest


def between(table: Any) -> ColumnElement[bool]:
    """Return the keyset range of IDs."""
    return and_(table.c.id > bindparam("after"), table.c.id <= bindparam("up_to"))


def same_message(one: Any, other: Any) -> ColumnElement[bool]:
    """Return whether two rows are about the same message."""
    return and_(*(one.c[key] == other.c[key] for key in ("container", "id", "msgid_prod", "msgid_seq")))


def same_subscription(one: Any, other: Any) -> ColumnElement[bool]:
    """Return whether two rows of one destination are of the same subscription."""
    return and_(one.c.client_id == other.c.client_id, one.c.sub_name == other.c.sub_name)


def _beside(name: str) -> ColumnElement[str]:
    return func.concat(literal_column(f"'{BESIDE}'"), bindparam(name))


class StatementBuilder:
    """Conditions on one set of tables, and their compilation for one vendor.

    ``ours`` says whether jdbcstore's own tables exist; without them, queries read only what ActiveMQ
    wrote, and statements that write must not be used. ``hinted`` says whether the vendor's hint for
    the indexes of a page is used, which requires these indexes.
    """

    takes_given: ClassVar[bool] = False
    """Whether the constructor is given the user's own statements, too."""

    def __init__(
        self, tables: Tables, adapter: Adapter, dialect: Dialect, *, ours: bool, hinted: bool
    ) -> None:
        self._tables = tables
        self._adapter = adapter
        self._dialect = dialect
        self._ours = ours
        self._hinted = hinted

    @classmethod
    def shared(
        cls, tables: Tables, adapter: Adapter, dialect: Dialect, *given: Hashable, **flags: bool
    ) -> Self:
        """Return the statements for these tables on servers like this one: to compile them takes long.

        ``dialect`` must have connected, and knows the server. ``given`` and ``flags`` are the constructor's.
        """

        def make() -> StatementBuilder:
            return cls(tables, adapter, dialect, *given, **flags)

        if not adapter.is_like_its_class:
            return cast(Self, make())
        facts = _facts(adapter, dialect)
        wanted = _Wanted(cls, tables, type(adapter), facts, given, frozenset(flags.items()), make)
        return cast(Self, _made(wanted))

    def _here(self, table: Any) -> ColumnElement[bool]:
        """In this destination."""
        column: ColumnElement[str] = table.c.container
        return self._equal(column, bindparam("container"))

    def _committed_here(self) -> ColumnElement[bool]:
        """Of a message: in this destination, and not of a prepared transaction."""
        t = self._tables.messages
        return and_(self._here(t), t.c.xid.is_(None))

    def _versioned(self, row: str) -> tuple[Sql, Sql]:
        """Return the query of a number of changes, and the statement that increments it and locks out other
        changes. The query finds nothing before the first change."""
        state = self._tables.state
        here = state.c.name == literal(row)
        counting = update(state).where(here).values(number=state.c.number + ONE)
        return self._compile(lambda: select(state.c.number).where(here)), self._compile(lambda: counting)

    def _equal(self, column: ColumnElement[str], value: ColumnElement[str]) -> ColumnElement[bool]:
        """Return a condition of which the plain comparison finds the index, and the exact one decides."""
        exact = self._adapter.exact(column)
        return column == value if exact is column else and_(column == value, exact == value)

    def _found_here(self, table: Any) -> ColumnElement[bool]:
        """As :meth:`_here`, for rows found by their key: no planner uses the index on CONTAINER for it."""
        column: ColumnElement[str] = table.c.container
        exact = self._adapter.exact(column)
        return (column.concat(literal_column("''")) if exact is column else exact) == bindparam("container")

    def _sub(self, table: Any) -> ColumnElement[bool]:
        return and_(
            self._here(table),
            self._equal(table.c.client_id, bindparam("client_id")),
            self._equal(table.c.sub_name, bindparam("sub_name")),
        )

    def _ahead_id(self, *, signed: bool = False) -> ColumnElement[Any]:
        """Return the message's ID if this subscription has acknowledged it beyond LAST_ACKED_ID, else NULL.

        If ``signed``, it is negative for an acknowledgement in doubt. A scalar subquery, because planners
        turn EXISTS into a join with all acknowledgements ahead.
        """
        if not self._ours:
            return null()
        ahead = self._tables.acknowledged
        id_ = case((ahead.c.xid.is_(None), ahead.c.id), else_=-ahead.c.id) if signed else ahead.c.id
        return (
            select(id_).where(same_message(ahead, self._tables.messages), self._sub(ahead)).scalar_subquery()
        )

    def _not_ahead(self) -> ColumnElement[bool]:
        # For "IS NULL" PostgreSQL expects one row in two hundred, and plans to read far for a page.
        return func.coalesce(self._ahead_id(), literal_column("-1")) != self._tables.messages.c.id

    def _behind_mark(self, acks: Any) -> ColumnElement[bool]:
        return func.coalesce(acks.c.last_acked_id, ZERO) < self._tables.messages.c.id

    def _add_ahead(self, *where: ColumnElement[bool], **more: Any) -> ClauseElement:
        """Record messages as acknowledged by a subscription beyond its LAST_ACKED_ID."""
        t = self._tables.messages
        name = t.c.container.type
        columns = {
            "container": t.c.container,
            "client_id": bindparam("client_id", type_=name),
            "sub_name": bindparam("sub_name", type_=name),
            **{key: t.c[key] for key in ("id", "msgid_prod", "msgid_seq")},
            **more,
        }
        source = select(*columns.values()).where(*where)
        return insert(self._tables.acknowledged).from_select([*columns], source)

    def _by_index(self, query: Select[Any], *others: str) -> Select[Any]:
        """Return the query with the vendor's hint for the index on CONTAINER, or another, where needed."""
        if not self._hinted:
            return query
        names = [str(message_index(self._tables, column).name) for column in ("container", *others)]
        return query.with_hint(self._tables.messages, self._adapter.index_hint.format(index=", ".join(names)))

    def _page(self, query: Callable[[], Select[Any]]) -> Sql:
        page = self._page_of(lambda: query().order_by(self._tables.messages.c.id))
        page.is_by_id = True
        return page

    def _priority(self) -> ColumnElement[int]:
        """Return a message's priority: 0, the lowest, for rows of an ActiveMQ before 5.4."""
        return func.coalesce(self._tables.messages.c.priority, ZERO)

    def _lanes(self, query: Callable[[], Select[Any]]) -> LaneQueries:
        priority = self._tables.messages.c.priority
        return LaneQueries(
            self._page(lambda: self._by_index(query().where(self._priority() < ONE))),
            self._page(lambda: self._by_index(query().where(priority == bindparam("priority")), "priority")),
        )

    def _page_of(self, query: Callable[[], Select[Any]]) -> Sql:
        return self._compile(lambda: query().limit(bindparam("limit", type_=Integer())))

    def _holding(self, name: str, number: str) -> ClauseElement:
        """Return the statement that finds a number of JDBCSTORE_STATE, and keeps others from changing it.

        ``name`` and ``number`` are parameters. Where nodes share no locks it counts in the row beside it,
        which a change of the number writes, too.
        """
        state = self._tables.state
        holds = and_(state.c.name == bindparam(name), state.c.number == bindparam(number, type_=BigInteger()))
        if self._adapter.certifies:
            beside: Any = state.alias("beside")
            here = beside.c.name == _beside(name)
            return update(beside).where(here, holds).values(number=beside.c.number + ONE)
        if self._adapter.touches_to_lock:
            return update(state).where(holds).values(number=state.c.number)
        return self._adapter.shared(select(state.c.number).where(holds))

    def _changing(self, name: str, new: ColumnElement[Any], *where: ColumnElement[bool]) -> ClauseElement:
        """Return the statement that changes a number, after all that keep it from changing."""
        state = self._tables.state
        changed = and_(state.c.name == bindparam(name), *where)
        if not self._adapter.certifies:
            return update(state).where(changed).values(number=new)
        beside: Any = state.alias("beside")
        counted: dict[Any, Any] = {state.c.number: new, beside.c.number: beside.c.number + ONE}
        return update(state).where(changed, beside.c.name == _beside(name)).values(counted)

    def _insert(self, table: Any) -> Sql:
        keys = [column.key for column in table.columns]
        return Sql(lambda: _compile(insert(table), self._dialect, keys))

    def _compile(self, statement: Callable[[], ClauseElement]) -> Sql:
        """Return the statement, built when first run: to build all takes longer than the rest of opening."""
        return Sql(lambda: _compile(statement(), self._dialect))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """All that statements are made of. Equal ones are made once."""

    kind: type[StatementBuilder]
    tables: Tables
    adapter: type[Adapter]
    facts: str
    given: tuple[Hashable, ...]
    flags: frozenset[tuple[str, bool]]
    make: Callable[[], StatementBuilder] = field(compare=False)


@lru_cache(maxsize=128)
def _made(wanted: _Wanted) -> StatementBuilder:
    return wanted.make()


def _facts(adapter: Adapter, dialect: Dialect) -> str:
    """Return what adapter and dialect know of vendor, driver and server; statements depend on some of it."""
    of_vendor = {name: getattr(adapter, name) for name in Adapter.__annotations__}
    # Names are never written with their schema, and each database may have another.
    of_server = {name: value for name, value in vars(dialect).items() if name != "default_schema_name"}
    plain = [
        (name, value)
        for name, value in [*of_vendor.items(), *of_server.items()]
        if isinstance(value, bool | int | str | tuple | None)
    ]
    return repr((type(dialect), adapter.certifies, sorted(plain, key=itemgetter(0))))


def _compile(statement: ClauseElement, dialect: Dialect, column_keys: list[str] | None = None) -> SqlText:
    """Return the statement's text and its parameters' names, in order, each as often as it occurs."""
    positional = _positional(dialect)
    compiled: Any = statement.compile(dialect=positional, column_keys=column_keys)
    # A dialect may bind a constant of its own, such as the 0 of OFFSET.
    constants = {
        name: bound.value
        for name, bound in compiled.binds.items()
        if bound.value is not None and not bound.required
    }
    text = compiled.string if positional is dialect else with_marks(compiled.string, dialect.paramstyle)
    return SqlText(text, tuple(compiled.positiontup), constants)


def _positional(dialect: Dialect) -> Dialect:
    """Return the dialect itself, or one like it whose parameters have neither names nor numbers."""
    if dialect.paramstyle in ("qmark", "format"):
        return dialect
    other: Any = copy.copy(dialect)
    other.paramstyle, other.positional = "qmark", True
    return other  # type: ignore[no-any-return]
