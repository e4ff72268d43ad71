"""SQL that the database evaluates itself: totals of destinations, lag of subscriptions, ranges of IDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Dialect, Select, and_, case, exists, func, literal_column, not_, or_, select

from jdbcstore.database.adapters.base import Adapter
from jdbcstore.database.statements.builder import ONE, ZERO, same_message, same_subscription
from jdbcstore.database.statements.rows import acknowledged
from jdbcstore.database.tables import Tables


def as_text(query: Select[Any], dialect: Dialect, schema: str) -> str:
    """Return the query as SQL with its literals, as Spark takes it; ``schema``: of its tables, or empty."""
    compiled = query.compile(
        dialect=dialect,
        schema_translate_map={None: schema or None},
        render_schema_translate=True,
        compile_kwargs={"literal_binds": True},
    )
    # Doubled for a driver that has parameters with a percent sign.
    doubled = dialect.identifier_preparer._double_percents
    return str(compiled).replace("%%", "%") if doubled else str(compiled)


def destinations(tables: Tables, adapter: Adapter) -> Select[Any]:
    """Return the query for totals of each destination, and the MSG column of its oldest message."""
    t = tables.messages
    name = adapter.exact(t.c.container).label("destination")
    committed = t.c.xid.is_(None)
    overdue = and_(committed, t.c.expiration > ZERO, t.c.expiration < literal_column(adapter.now_ms))

    def total(condition: Any, value: Any = ONE) -> Any:
        return func.coalesce(func.sum(case((condition, value), else_=ZERO)), ZERO)

    totals = (
        select(
            name,
            total(committed).label("depth"),
            total(committed, func.length(t.c.msg)).label("bytes"),
            total(overdue).label("expired"),
            total(not_(committed)).label("in_doubt"),
            func.min(case((committed, t.c.id))).label("oldest_id"),
        )
        .group_by(*_exactly(adapter, t.c.container))
        .subquery("totals")
    )
    return select(totals, t.c.msg.label("msg")).select_from(totals.outerjoin(t, t.c.id == totals.c.oldest_id))


def _exactly(adapter: Adapter, column: Any) -> list[Any]:
    """Return expressions that differ whenever the strings do; exact collations may ignore trailing blanks."""
    exact = adapter.exact(column)
    return [column] if exact is column else [exact, func.length(column)]


def subscriptions(tables: Tables, adapter: Adapter, *, ours: bool) -> Select[Any]:
    """Return the query for each durable subscription with its lag; selectors are not applied.

    ``ours``: the table of acknowledgements ahead of LAST_ACKED_ID exists.
    """
    marks = tables.acks
    per_mark = select(
        marks.c.container.label("destination"),
        marks.c.client_id,
        marks.c.sub_name.label("subscription_name"),
        marks.c.sub_dest.label("subscribed_destination"),
        marks.c.selector,
        marks.c.last_acked_id,
        _lag(tables, adapter, ours=ours).label("lag"),
        _ahead(tables, ours=ours).label("acknowledged_ahead"),
    ).where(marks.c.priority.between(ZERO, literal_column("9")))
    m = per_mark.subquery("marks")
    names = (m.c.destination, m.c.client_id, m.c.subscription_name)
    return select(
        *names,
        func.max(m.c.subscribed_destination).label("subscribed_destination"),
        func.max(m.c.selector).label("selector"),
        func.max(m.c.last_acked_id).label("last_acked_id"),
        func.sum(m.c.lag).label("lag"),
        func.max(m.c.acknowledged_ahead).label("acknowledged_ahead"),
    ).group_by(*names)


def pending(tables: Tables, adapter: Adapter, *, ours: bool) -> Select[Any]:
    """Return the query for the ID of each unacknowledged message of each durable subscription.

    Selectors are not applied; ``ours`` as for :func:`subscriptions`.
    """
    t, marks = tables.messages, tables.acks
    return select(
        marks.c.container.label("destination"),
        marks.c.client_id,
        marks.c.sub_name.label("subscription_name"),
        t.c.id,
    ).where(marks.c.priority.between(ZERO, literal_column("9")), *_unacknowledged(tables, adapter, ours=ours))


def _lag(tables: Tables, adapter: Adapter, *, ours: bool) -> Any:
    t, marks = tables.messages, tables.acks
    conditions = _unacknowledged(tables, adapter, ours=ours)
    return select(func.count()).select_from(t).where(*conditions).correlate(marks).scalar_subquery()


def _unacknowledged(tables: Tables, adapter: Adapter, *, ours: bool) -> list[Any]:
    """Return the conditions under which a message is unacknowledged by the subscription of a mark."""
    t, marks, ahead = tables.messages, tables.acks, tables.acknowledged
    other = marks.alias("other")
    same = and_(other.c.container == marks.c.container, same_subscription(other, marks))
    has_others = exists(select(ONE).where(same, other.c.priority != marks.c.priority)).correlate(marks)
    # A subscription with a single row has one mark for all priorities.
    governs = or_(marks.c.priority == t.c.priority, not_(has_others))
    behind = t.c.id > func.coalesce(marks.c.last_acked_id, ZERO)
    # The plain comparison uses the index.
    conditions = [t.c.container == marks.c.container, t.c.xid.is_(None), behind, governs]
    if adapter.exact(t.c.container) is not t.c.container:
        pairs = zip(_exactly(adapter, t.c.container), _exactly(adapter, marks.c.container), strict=True)
        conditions += [one == other for one, other in pairs]
    if ours:
        by_it = select(ONE).where(same_message(ahead, t), same_subscription(ahead, marks))
        conditions.append(not_(exists(by_it).correlate(t, marks)))
    return conditions


def _ahead(tables: Tables, *, ours: bool) -> Any:
    if not ours:
        return ZERO
    marks, ahead = tables.acks, tables.acknowledged
    same = and_(ahead.c.container == marks.c.container, same_subscription(ahead, marks))
    return select(func.count()).select_from(ahead).where(same).correlate(marks).scalar_subquery()


def between(tables: Tables, after: int, up_to: int) -> tuple[Any, Any]:
    """Return the conditions on IDs in this range, the first exclusive, the last inclusive."""
    ids = tables.messages.c.id
    return ids > after, ids <= up_to


def count_ids(tables: Tables, *conditions: Any) -> Select[Any]:
    return select(func.count()).select_from(tables.messages).where(*conditions)


def journal(tables: Tables) -> Select[Any]:
    """Return the query for the number of the journal that may hold messages not yet in the tables; 0 or null
    if there is none."""
    state = tables.state
    return select(func.max(state.c.number)).where(state.c.name == "journal")


def nth_id(tables: Tables, place: int, *conditions: Any) -> Select[Any]:
    """Return the query for the ID of the message after ``place`` others; no row if there are fewer."""
    ids = tables.messages.c.id
    return select(ids).where(*conditions).order_by(ids).limit(1).offset(place)


def sizes(tables: Tables, *conditions: Any) -> Select[Any]:
    """Return the query for the ID of each message and the bytes of its blob, in the order of IDs."""
    t = tables.messages
    return select(t.c.id, func.coalesce(func.length(t.c.msg), ZERO)).where(*conditions).order_by(t.c.id)


def cut(sized: Iterable[Any], most: int) -> Iterator[list[int]]:
    """Yield the IDs of :func:`sizes` in runs of ``most`` bytes, or of one message if that is larger."""
    run: list[int] = []
    total = 0
    for id_, size in sized:
        if run and total + size > most:
            yield run
            run, total = [], 0
        run.append(id_)
        total += size
    if run:
        yield run


def last_id(tables: Tables) -> Select[Any]:
    return select(func.coalesce(func.max(tables.messages.c.id), literal_column("-1")))


def stored(tables: Tables, adapter: Adapter, *, ours: bool, done: bool) -> Select[Any]:
    """Return the query for rows not in doubt; with ``done``, for those that all subscriptions
    acknowledged."""
    t = tables.messages
    container = t.c.container
    columns = [adapter.exact(c).label(c.name) if c is container else c for c in t.columns]
    condition = acknowledged(tables, adapter, ours=ours) if done else t.c.xid.is_(None)
    return select(*columns).where(condition)
