"""The console under ``/console``: its pages, and operations after a confirmation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Any

from aiohttp import web

from jdbcstore.abc import RemovalRecord
from jdbcstore.broker.console.actions import ACTIONS
from jdbcstore.broker.console.bodies import preview, properties_of, shown_body
from jdbcstore.broker.console.charts import chart, spark
from jdbcstore.broker.console.claims import claims_context, claims_of
from jdbcstore.broker.console.clients import client_context
from jdbcstore.broker.console.database import ConsoleSource
from jdbcstore.broker.console.dead import grouped
from jdbcstore.broker.console.exports import body_file, download, exported
from jdbcstore.broker.console.forms import Offer, OperationForms
from jdbcstore.broker.console.frame import Handler, Page, PageFrame
from jdbcstore.broker.console.life import LifeEvent, life_of, recorded
from jdbcstore.broker.console.lookups import Lookups, Master, Schema
from jdbcstore.broker.console.messages import COLUMNS, asked_of, choice_of, messages_of
from jdbcstore.broker.console.rendering import Renderer, Static, url
from jdbcstore.broker.console.request_context import MAX_FORM, ConsoleGate, RequestContext
from jdbcstore.broker.console.tables import CONNECTIONS, CONSUMERS, MORE, QUEUES, ROWS, STORED, TOPICS, listed
from jdbcstore.broker.management.claims import ClaimManagement, SharedQueues
from jdbcstore.broker.management.guard import Guard
from jdbcstore.broker.management.history import DEAD, DEQUEUED, ENQUEUED, SIZE, SPANS, CounterHistory
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.messages import defect_of
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.texts import bare
from jdbcstore.broker.management.views import ConnectionView, SubscriptionView
from jdbcstore.broker.management.watch import BrokerWatch
from jdbcstore.broker.operations import NotARequest, status_of
from jdbcstore.config.users import BROWSE, MANAGE, VIEW
from jdbcstore.errors import (
    CorruptMessage,
    DestinationNotFound,
    InvalidDestination,
    MessageNotFound,
    StoreError,
)
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.ids import MessageId
from jdbcstore.message.jobs import CRON
from jdbcstore.message.message import Message
from jdbcstore.util.checkup import FIGURES
from jdbcstore.util.clock import Clock, SystemClock
from jdbcstore.util.stream_health import StreamHealth

_MOST_COUNTED = 100
"""The most durable subscriptions whose pending messages are counted for a page."""
_LARGEST = 10
"""The most dead letter queues on their page."""


class Console:
    """The pages of one source.

    :param management: runs operations; None for a read-only source
    :param shared: the shared queues; None for a broker
    :param schema: reads the schema of the database
    :param master: finds the master while this broker is not serving
    """

    def __init__(
        self,
        source: ConsoleSource,
        guard: Guard,
        *,
        management: Management | None = None,
        shared: ClaimManagement | None = None,
        schema: Schema | None = None,
        master: Master | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._management = management
        self._shared = None if shared is None else shared.claims
        self._clock = clock or SystemClock()
        offers = {
            name: Offer(action, partial(action.run, performing), partial(action.affected, performing))
            for performing in (management, shared)
            if performing is not None
            for name, action in ACTIONS.items()
            if action.operation in performing.operations
        }
        self._gate = ConsoleGate(guard)
        self._lookups = Lookups(schema=schema, master=master, clock=self._clock)
        self._static = Static()
        self._frame = PageFrame(
            source,
            self._gate,
            Renderer(self._static),
            self._lookups,
            self._clock,
            is_live=management is not None,
            may_change=bool(offers),
            has_claims=shared is not None,
        )
        self._show = self._frame.page
        self._forms = OperationForms(source, self._frame, offers) if offers else None
        self._history = CounterHistory() if management is None else management.watch.history
        self._watch = (
            BrokerWatch(source, self._history, self._clock) if management is None else management.watch
        )

    def application(self) -> web.Application:
        """Return an application to be mounted under ``/console``; it takes samples while it runs."""
        application = web.Application(middlewares=[self._frame.errors], client_max_size=MAX_FORM)
        router = application.router
        for path, role, page in self._pages():
            router.add_get(path, self._handler(role, page))
        router.add_post("/export", self._handler(BROWSE, self._export))
        router.add_get("/static/{file}", self._file)
        if self._shared is not None:
            router.add_get("/claims", self._handler(VIEW, partial(self._claims, self._shared)))
        if self._forms is not None:
            router.add_get("/do/{action}", self._handler(MANAGE, self._forms.ask))
            router.add_post("/do/{action}", self._handler(MANAGE, self._forms.do))
        if self._management is not None:
            router.add_get("/client", self._handler(VIEW, partial(self._client, self._management)))
            application.cleanup_ctx.append(partial(self._watch.sampling, self._management.views))
        return application

    def _pages(self) -> list[tuple[str, str, Page]]:
        return [
            ("", VIEW, self._overview),
            ("/", VIEW, self._overview),
            ("/queues", VIEW, partial(self._list, kind=DestinationKind.QUEUE)),
            ("/topics", VIEW, partial(self._list, kind=DestinationKind.TOPIC)),
            ("/queue", VIEW, partial(self._destination, kind=DestinationKind.QUEUE)),
            ("/topic", VIEW, partial(self._destination, kind=DestinationKind.TOPIC)),
            ("/message", BROWSE, self._message),
            ("/consumers", VIEW, self._consumers),
            ("/connections", VIEW, self._connections),
            ("/dead-letters", BROWSE, self._dead_letters),
            ("/transactions", VIEW, self._transactions),
            ("/broker", VIEW, self._broker),
            ("/database", VIEW, self._database),
            ("/operations", VIEW, self._operations),
            ("/scheduled", VIEW, self._scheduled),
            ("/configuration", BROWSE, self._configuration),
            ("/log", BROWSE, self._log),
            ("/body", BROWSE, self._body),
            ("/export", BROWSE, self._export),
            ("/state", VIEW, self._state),
        ]

    def _handler(self, role: str, page: Page) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            began, cpu = time.perf_counter(), time.thread_time()
            ctx = await self._gate.admit(request, role)
            answer = await self._frame.answered(ctx, page)
            times = 1000 * (time.perf_counter() - began), 1000 * (time.thread_time() - cpu)
            answer.headers["Server-Timing"] = "page;dur={:.1f}, cpu;dur={:.1f}".format(*times)
            return answer

        return handle

    async def _file(self, request: web.Request) -> web.Response:
        return self._static.answer(request.match_info["file"])

    # Pages

    async def _overview(self, ctx: RequestContext) -> web.Response:
        history, now = self._history, await self._watch.read()
        raised = self._watch.judged(now)
        if not now.broker.condition.serves:
            return await self._show(ctx, "waiting.html", alarms=raised)
        dead_names = {*map(str, now.dead)}
        backlog = sum(view.size or 0 for view in now.views)
        ages = [view.oldest_age for view in now.largest if view.oldest_age is not None]
        return await self._show(
            ctx,
            "overview.html",
            alarms=raised,
            sparks={name: self._spark(Destination.parse(name)) for one in raised for name in one.names},
            oldest=max(ages, default=None),
            backlog=backlog,
            consumers=sum(view.consumers for view in now.views),
            in_flight=sum(view.in_flight for view in now.views),
            dead=sum(view.size or 0 for view in now.views if view.name in dead_names),
            rates=[history.rate(kind) for kind in (ENQUEUED, DEQUEUED, DEAD)],
            **self._charts(ctx, size=backlog),
        )

    def _charts(
        self, ctx: RequestContext, name: Destination | None = None, *, is_topic: bool = False, size: int = 0
    ) -> dict[str, Any]:
        """Return the charts of a page in the requested span.

        :param size: the number of messages now
        """
        history, chosen = self._history, ctx.text("span") or "hour"
        if chosen not in SPANS:
            raise NotARequest(f"span must be one of {', '.join(SPANS)}")
        span = SPANS[chosen]
        lines = [
            (label, history.shown(kind, span, name), history.rate(kind, name))
            for label, kind in (("in", ENQUEUED), ("out", DEQUEUED))
        ]
        charts = [chart("Messages per second", span, lines[:1] if is_topic else lines, is_rate=True)]
        if not is_topic:
            charts.append(
                chart(
                    "Messages, ready and unacknowledged",
                    span,
                    [("messages", history.shown(SIZE, span, name), size)],
                )
            )
        return {"charts": charts, "span": chosen}

    async def _list(self, ctx: RequestContext, kind: DestinationKind) -> web.Response:
        is_topic = kind is DestinationKind.TOPIC
        views = [view for view in await self._source.destinations() if view.is_topic == is_topic]
        wants_all = ctx.text("columns") == "all"
        columns = self._columns(is_topic, wants_all)
        page = listed(ctx, views, columns, lambda view: bare(view.name), others=() if is_topic else MORE)
        rows = page["rows"]
        if any(view.size is None and not view.is_topic for view in rows):
            counted = await self._source.destinations([Destination.parse(view.name) for view in rows])
            by_name = {view.name: view for view in counted}
            rows = [by_name.get(view.name, view) for view in rows]
        if not is_topic:
            rows = await self._source.with_ages(rows)
        return await self._show(
            ctx,
            "destinations.html",
            kind="topic" if is_topic else "queue",
            dead={*map(str, self._source.dead_letter_queues())},
            filters={"columns": "all"} if wants_all else {},
            sparks={view.name: self._spark(Destination.parse(view.name)) for view in rows},
            **{**page, "rows": rows},
        )

    def _columns(self, is_topic: bool, wants_all: bool) -> tuple[tuple[str, str, str], ...]:
        if self._management is None:
            return STORED[:1] if is_topic else STORED
        if is_topic:
            return TOPICS
        return (*QUEUES, *MORE) if wants_all else QUEUES

    def _spark(self, name: Destination) -> str:
        return spark(self._history.sizes(name)[-61::3])

    async def _destination(self, ctx: RequestContext, kind: DestinationKind) -> web.Response:
        name, is_topic = ctx.destination(kind), kind is DestinationKind.TOPIC
        shown = "topic" if is_topic else "queue"
        try:
            view = await self._source.destination(name)
        except DestinationNotFound:
            return await self._show(ctx, "missing.html", status=404, name=name.name, kind=shown)
        messages: dict[str, Any] = {"page": None, "rows": []}
        error, history, asked = None, self._history, asked_of(ctx)
        charts = self._charts(ctx, name, is_topic=is_topic, size=view.size or 0)
        if not history.has(name):
            charts["charts"] = []
        if ctx.may_browse and not is_topic:
            try:
                messages = await messages_of(ctx, self._source, name)
            except StoreError as failure:
                error = failure
        subscriptions = await (self._subscriptions() if is_topic else self._source.subscriptions())
        return await self._show(
            ctx,
            "destination.html",
            status=200 if error is None else status_of(error),
            kind=shown,
            name=name.name,
            view=view,
            rates=[history.rate(ENQUEUED, name), None if is_topic else history.rate(DEQUEUED, name)],
            **charts,
            **messages,
            query=asked,
            columns=COLUMNS,
            is_first=not ctx.text("after"),
            error=None if error is None else str(error),
            consumers=[view for view in subscriptions if view.destination == str(name)],
            columns_of_consumers=CONSUMERS,
            clients=self._clients(),
            claims=None if is_topic or self._shared is None else await claims_of(self._shared, name),
            is_dead=not is_topic and name in self._source.dead_letter_queues(),
        )

    async def _message(self, ctx: RequestContext) -> web.Response:
        name, wanted = ctx.destination(), ctx.text("id")
        try:
            message = await self._source.message(name, wanted)
        except MessageNotFound as error:
            return await self._gone(ctx, name, wanted, error)
        left: list[RemovalRecord] = []
        if message.message_id is not None:
            left = await self._source.removals(message.message_id, message.timestamp_ms or None)
        as_hex = ctx.text("hex") == "yes"
        return await self._show(
            ctx,
            "message.html",
            name=name.name,
            message=message,
            **self._shown_parts(message, as_hex=as_hex),
            as_hex=as_hex,
            life=self._life(message, name, left),
            back=ctx.came_from(url("queue", name=name.name)),
        )

    def _shown_parts(self, message: Message, *, as_hex: bool = False) -> dict[str, Any]:
        """Return the headers, properties and body of a message, as far as they can be decoded."""
        parts: dict[str, Any] = {
            "headers": _headers(message),
            "properties": None,
            "body": None,
            "damage": None,
        }
        try:
            parts["properties"] = properties_of(message)
            parts["body"] = shown_body(message, as_hex=as_hex)
        except CorruptMessage as error:
            parts["damage"] = str(error)
        return parts

    async def _gone(
        self, ctx: RequestContext, queue: Destination, wanted: str, error: MessageNotFound
    ) -> web.Response:
        """Answer with the records of a message that is no longer in its queue.

        :raises MessageNotFound: there are none
        """
        left = await self._source.removals(MessageId.parse(wanted))
        if not left:
            raise error
        life, text = [*recorded(left)], str(error)
        return await self._show(
            ctx, "gone.html", status=404, name=queue.name, id=wanted, error=text, life=life
        )

    def _life(self, message: Message, queue: Destination, left: Sequence[RemovalRecord]) -> list[LifeEvent]:
        management = self._management
        if management is None:
            return life_of(message, queue, None, (), left)
        holder = management.views.holder(queue, message)
        return life_of(message, queue, holder, management.inside.log(limit=1000), left)

    async def _consumers(self, ctx: RequestContext) -> web.Response:
        clients = self._clients()

        def said(view: SubscriptionView) -> str:
            client = view.client_id or clients.get(view.connection_id or "") or view.connection_id
            return f"{view.destination} {client} {view.client} {view.name or ''} {view.selector or ''}"

        views = await self._subscriptions()
        page = listed(ctx, views, CONSUMERS, said, "oldest_unacknowledged")
        return await self._show(
            ctx, "consumers.html", clients=clients, columns_of_consumers=CONSUMERS, **page
        )

    async def _client(self, management: Management, ctx: RequestContext) -> web.Response:
        return await self._show(ctx, "client.html", **await client_context(management, ctx))

    async def _subscriptions(self) -> list[SubscriptionView]:
        """Return subscriptions with their pending messages, unless there are too many to count for each
        page."""
        views = await self._source.subscriptions()
        if sum(view.name is not None for view in views) > _MOST_COUNTED:
            return views
        return await self._source.subscriptions(pending=True)

    def _clients(self) -> dict[str, str | None]:
        """Return the client id of each connection."""
        return {view.id: view.client_id for view in self._connected()}

    def _connected(self) -> list[ConnectionView]:
        return self._source.connections() if isinstance(self._source, Views) else []

    async def _connections(self, ctx: RequestContext) -> web.Response:
        def said(view: ConnectionView) -> str:
            return " ".join((view.client_id or "", view.id, view.peer, view.user, *view.sends_to))

        page = listed(ctx, self._connected(), CONNECTIONS, said)
        return await self._show(ctx, "connections.html", **page)

    async def _dead_letters(self, ctx: RequestContext) -> web.Response:
        views = [
            view for view in await self._source.destinations(self._source.dead_letter_queues()) if view.size
        ]
        views.sort(key=lambda view: -(view.size or 0))
        queues = []
        for view in views[:_LARGEST]:
            with suppress(DestinationNotFound):
                queues.append(await grouped(self._source, Destination.parse(view.name)))
        selected = next((each for each in queues if each.queue.name == ctx.text("name")), None)
        group = None if selected is None else selected.chosen(ctx.text("group"))
        context: dict[str, Any] = {"selected": selected, "group": group, "message": None}
        if selected is not None and group is not None:
            with suppress(MessageNotFound):
                message = await self._source.message(selected.queue, ctx.text("id") or group.ids[0])
                context |= {"message": message, **self._shown_parts(message)}
                context["life"] = self._life(message, selected.queue, ())
        more = max(len(views) - _LARGEST, 0)
        return await self._show(ctx, "dead_letters.html", queues=queues, more=more, **context)

    async def _operations(self, ctx: RequestContext) -> web.Response:
        runs = self._source.operations() if isinstance(self._source, Views) else []
        return await self._show(ctx, "operations.html", runs=runs)

    async def _scheduled(self, ctx: RequestContext) -> web.Response:
        number = ctx.number("page", least=1, most=1 << 31) or 1
        page: dict[str, Any] = {"total": None, "scheduled": []}
        messages: dict[int, Message] = {}
        error = "scheduled messages are on the console of their broker"
        if self._management is not None:
            try:
                page = self._management.scheduled.listed(offset=(number - 1) * ROWS, limit=ROWS)
                if ctx.may_browse:
                    sequences = [view.sequence for view in page["scheduled"]]
                    messages = await self._management.scheduled.messages(sequences)
            except InvalidDestination as failure:
                error = str(failure)
        return await self._show(
            ctx,
            "scheduled.html",
            rows=page["scheduled"],
            messages={
                sequence: (message.properties.get(CRON, ""), preview(message), shown_body(message))
                for sequence, message in messages.items()
                if defect_of(message) is None
            },
            total=page["total"],
            error=error if page["total"] is None else None,
            number=number,
            pages=max(ceil((page["total"] or 0) / ROWS), 1),
            asked={},
        )

    async def _configuration(self, ctx: RequestContext) -> web.Response:
        inside = None if self._management is None else self._management.inside
        return await self._show(
            ctx,
            "configuration.html",
            found=None if inside is None else inside.configuration(),
            users=[] if inside is None else await inside.users(),
        )

    async def _log(self, ctx: RequestContext) -> web.Response:
        search = ctx.text("search")
        lines = [] if self._management is None else self._management.inside.log(search=search, limit=ROWS)
        return await self._show(ctx, "log.html", lines=lines, search=search)

    async def _body(self, ctx: RequestContext) -> web.Response:
        """Answer with the body of a message as a file."""
        message = await self._source.message(ctx.destination(), ctx.text("id"))
        return download(*body_file(message))

    async def _export(self, ctx: RequestContext) -> web.StreamResponse:
        """Answer with messages as lines of JSON: the selected ones, or all that match a selector."""
        name = ctx.destination()
        choice = choice_of(ctx)
        if ctx.text("chosen") and choice.ids is None:
            raise NotARequest("no message is selected; go back and select some")
        return await exported(ctx, self._source, name, choice)

    async def _transactions(self, ctx: RequestContext) -> web.Response:
        return await self._show(ctx, "transactions.html", transactions=await self._source.transactions())

    async def _broker(self, ctx: RequestContext) -> web.Response:
        source, store, journal, schema = self._source, None, None, None
        streams: list[StreamHealth] = []
        try:
            if source.broker().condition.serves:
                store, schema = await source.store(), await self._lookups.schema()
                if isinstance(source, Views):
                    journal, streams = await source.journal(), await source.streams()
        except StoreError:
            if source.broker().condition.serves:
                raise
        return await self._show(
            ctx,
            "broker.html",
            lock=source.lock(),
            events=source.lock_history() if isinstance(source, Views) else [],
            store=store,
            journal=journal,
            streams=streams,
            schema=schema,
        )

    async def _database(self, ctx: RequestContext) -> web.Response:
        served = self._source.broker().condition.serves
        checkup = await self._source.checkup() if served else None
        return await self._show(ctx, "database.html", checkup=checkup, figures=FIGURES)

    async def _state(self, ctx: RequestContext) -> web.Response:
        """Answer the script of a page that is not live."""
        return await self._show(ctx, "state.html")

    async def _claims(self, shared: SharedQueues, ctx: RequestContext) -> web.Response:
        return await self._show(ctx, "claims.html", **await claims_context(shared, ctx))


def _headers(message: Message) -> list[tuple[str, object]]:
    """Return the headers that are set."""
    headers: Sequence[tuple[str, object]] = (
        ("JMSMessageID", message.message_id),
        ("JMSDestination", message.destination),
        ("JMSDeliveryMode", "persistent" if message.persistent else "not persistent"),
        ("JMSPriority", message.priority),
        ("JMSTimestamp", message.timestamp_ms),
        ("JMSExpiration", message.expiration_ms or None),
        ("JMSCorrelationID", message.correlation_id),
        ("JMSReplyTo", message.reply_to),
        ("JMSType", message.jms_type),
        ("JMSRedelivered", "yes" if message.redelivery_counter else None),
        ("Redeliveries", message.redelivery_counter or None),
        ("Original destination", message.original_destination),
        ("Transaction", message.transaction_id),
        ("Producer", message.producer_id),
        ("Compressed", "yes" if message.compressed else None),
        ("Sequence (the ID column)", message.sequence),
    )
    return [(name, value) for name, value in headers if value is not None]
