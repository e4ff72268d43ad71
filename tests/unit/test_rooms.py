"""The size of a class, the names of classes, and who sets an attribute: what keeps a room simple.

Each list has what does not hold yet, or never will with its reason; what is mended goes from it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jdbcstore"

LINES, METHODS = 400, 40

OVERSIZE: set[str] = {
    "broker/console/pages.py: Console",
    "broker/engine.py: Engine",
    "broker/management/http.py: Api",
    "broker/management/management.py: Management",
    "broker/queues/queue.py: Queue",
    "database/adapters/base.py: Adapter",
    "plugins/kombu.py: Channel",
    "stores/claims/claims.py: Claims",
    "stores/jdbc/writer/writer.py: Writer",
}
TWICE: set[str] = {
    "Address",
    "Batch",
    "Binding",
    "Bodies",
    "Column",
    "Command",
    "Comparison",
    "Connection",
    "Cursor",
    "DeadLetters",
    "Difference",
    "Engine",
    "Entry",
    "Found",
    "Group",
    "Guard",
    "Held",
    "History",
    "Kind",
    "Known",
    "Lanes",
    "Line",
    "LockView",
    "Login",
    "Notices",
    "Opening",
    "Outcome",
    "Place",
    "Plan",
    "Promise",
    "Reader",
    "Reading",
    "Rows",
    "Selection",
    "Shown",
    "Slice",
    "Source",
    "Stored",
    "Subscription",
    "Target",
    "TransactionalTopic",
    "Turns",
    "Unit",
    "Write",
    "Writes",
    "Written",
}

# Attributes that are set by another module than the one that declares them, by the reason.
OUTSIDE: dict[str, dict[str, set[str]]] = {
    "Objects of a library.": {
        "analytics/decoding.py": {"decode.__name__"},
        "analytics/spark_session.py": {"gateway.Popen", "logging.getLogger(logger).disabled"},
        "broker/console/rendering.py": {"self._environment.filters", "self._environment.globals"},
        "broker/transport/connector.py": {"context.minimum_version", "context.verify_mode"},
        "cli/app.py": {"commands.help"},
        "cli/broker.py": {"logging.getLogger(AUDIT_LOG).propagate"},
        "cli/messages.py": {"table.expand"},
        "cli/top_screen.py": {"field.value"},
        "config/xml/beans.py": {
            "self.parser.CharacterDataHandler",
            "self.parser.EndElementHandler",
            "self.parser.EntityDeclHandler",
            "self.parser.StartElementHandler",
            "self.placeholders.environment_wins",
        },
        "database/adapters/writing.py": {"cursor.connection.autocommit"},
        "database/adapters/jdbc/dialect.py": {"connection.autocommit"},
        "database/adapters/libpq.py": {"line.nonblocking"},
        "database/adapters/mssql.py": {
            "connection.timeout",
            "dialect._supports_offset_fetch",
            "dialect.deprecate_large_types",
        },
        "database/adapters/mysql.py": {"result.unbuffered_active"},
        "database/adapters/oracle.py": {"connection.autocommit", "connection.call_timeout"},
        "database/adapters/postgresql.py": {
            "connection.answer_timeout",
            "connection.cursor_factory",
            "self._cursor.connection.prepare_threshold",
        },
        "database/migrations/migration.py": {
            "context.impl.command_terminator",
            "self._dialect.insert_returning",
        },
        "database/migrations/scripts.py": {"acks.key", "acks.key_name", "self._dialect.insert_returning"},
        "database/migrations/steps.py": {"column.nullable", "there.columns", "there.key", "there.key_name"},
        "message/message.py": {"Message.__init__", "fields.__class__"},
        "plugins/coilmq.py": {"message.cmd", "start.QueueManager"},
        "util/core/build.py": {"command.build_lib", "command.build_temp"},
    },
    "Not mended yet.": {
        "broker/console/pages.py": {"total.dead", "total.dequeued", "total.enqueued"},
        "broker/engine.py": {
            "queue.is_paused",
            "queue.is_rerouted",
            "queue.stored_before",
            "subscription.on_close",
            "topic.is_rerouted",
        },
        "broker/loop.py": {"promise.at_once"},
        "broker/process/master.py": {"self._service.broker"},
        "broker/queues/concurrent.py": {"entry.sequence", "entry.stored", "entry.writing"},
        "broker/queues/dispatcher.py": {"entry.message"},
        "broker/queues/marks.py": {"entry.is_marked"},
        "broker/queues/queue.py": {"entry.returned"},
        "broker/queues/redelivery.py": {"entry.message"},
        "broker/scheduler/scheduler.py": {"outbox.committing"},
        "broker/store_io/transaction.py": {
            "entry.holder",
            "entry.transaction",
            "outbox.committing",
            "self._transactions.outbox.committing",
            "sent.at_once",
        },
        "broker/subscription.py": {"entry.holder", "entry.returned", "entry.transaction"},
        "broker/topics/durable.py": {"entry.source"},
        "broker/topics/registry.py": {
            "durable.is_certain",
            "durable.is_ending",
            "durable.is_in_use",
            "durable.offline_since",
        },
        "broker/transport/replies.py": {"done.at_once"},
        "database/connection.py": {"batch.removes"},
        "database/statements/builder.py": {"other.paramstyle", "other.positional", "page.is_by_id"},
        "journal/log.py": {"entry.taken"},
        "journal/storage.py": {"current.end"},
        "stores/claims/claims.py": {"connection.tenure", "self.session.recorder"},
        "stores/jdbc/store.py": {
            "self._context.bodies.find",
            "self._session.is_journaled",
            "self._session.recorder",
        },
        "stores/jdbc/writer/committer.py": {
            "call.adding.adds",
            "connection.tenure",
            "self._connection.unclaimed",
        },
        "stores/jdbc/writer/writer.py": {"unit.completion", "unit.size", "unit.withdrawn"},
        "stores/journaled/checkpointer.py": {"self._overlay.written"},
        "stores/journaled/recovery.py": {
            "overlay.journaled",
            "overlay.last_number",
            "self.overlay.found",
            "self.overlay.journaled",
            "self.overlay.written",
        },
        "stores/journaled/store.py": {"writer.journal"},
        "stores/journaled/transactions.py": {"held.is_decided"},
        "stores/journaled/writer.py": {
            "overlay.journaled",
            "overlay.last_number",
            "overlay.last_sequence",
            "overlay.written",
        },
        "stores/memory/destinations.py": {"self._state.last_sequence", "stored.message", "stored.size"},
        "stores/memory/store.py": {
            "self._state.changed",
            "self._state.closed",
            "self._state.find_body",
            "shelf.recorded",
            "state.last_sequence",
            "state.mark",
        },
        "stores/opening.py": {"store.fence"},
        "tools/transfer.py": {
            "other._connection.tenure",
            "self._connection.tenure",
            "self._connection.unclaimed",
        },
    },
    "Counters are counted where it happens.": {
        "broker/entry.py": {"self.counters.dequeued", "self.counters.expired"},
        "broker/queues/concurrent.py": {"self._source.counters.enqueued"},
        "broker/queues/dead_letters.py": {"source.counters.expired"},
        "broker/queues/queue.py": {"self.counters.enqueued"},
        "broker/store_io/outbox.py": {"self._counters.dequeued"},
        "broker/subscription.py": {"counters.waited_ms"},
        "broker/topics/topic.py": {"self.counters.enqueued", "self.counters.expired"},
    },
    "Where an error came from is known where it is caught.": {
        "config/configuration.py": {"error.place"},
        "config/statements.py": {"error.option"},
        "database/adapters/registry.py": {"error.option"},
        "database/engine.py": {"error.option"},
        "journal/log.py": {"doubt.__cause__", "failure.__cause__"},
        "stores/jdbc/writer/writer.py": {"failure.__cause__"},
        "stores/journaled/admission.py": {"error.__cause__"},
    },
    "The decoder fills in the message that it makes.": {
        "message/openwire/decoder.py": {
            "fields._body",
            "fields._properties",
            "fields._source",
            "fields.arrival_ms",
            "fields.body_type",
            "fields.broker_in_time_ms",
            "fields.broker_out_time_ms",
            "fields.broker_path",
            "fields.cluster",
            "fields.command_id",
            "fields.compressed",
            "fields.correlation_id",
            "fields.data_structure",
            "fields.deleted_by_broker",
            "fields.destination",
            "fields.droppable",
            "fields.expiration_ms",
            "fields.first_for_consumer",
            "fields.group_id",
            "fields.group_sequence",
            "fields.jms_type",
            "fields.message_id",
            "fields.mime_type",
            "fields.original_destination",
            "fields.original_transaction_id",
            "fields.persistent",
            "fields.priority",
            "fields.producer_id",
            "fields.received_by_df_bridge",
            "fields.redelivery_counter",
            "fields.remote_blob_url",
            "fields.reply_to",
            "fields.response_required",
            "fields.sequence",
            "fields.target_consumer_id",
            "fields.timestamp_ms",
            "fields.user_id",
        },
    },
}


@cache
def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def test_no_class_is_a_whole_floor() -> None:
    """The contract of a store is as large as what a store does."""
    large = {
        f"{module}: {node.name}"
        for module, node in classes()
        if module != "abc.py" and (length(node) > LINES or len(methods(node)) > METHODS)
    }
    assert large <= OVERSIZE


def length(node: ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def methods(node: ast.ClassDef) -> list[ast.stmt]:
    return [member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_a_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(list)
    for module, node in classes():
        if not node.name.startswith("_"):
            homes[node.name].append(module)
    assert {name for name, where in homes.items() if len(where) > 1} <= TWICE


def test_an_attribute_is_set_by_the_module_that_declares_it() -> None:
    """Elsewhere it is an argument of the constructor, or a method says what happens."""
    outside = {
        module: names
        for module, tree in modules().items()
        if (names := {name for name in assigned(tree) if name.rpartition(".")[2] not in declared(tree)})
    }
    known: dict[str, set[str]] = defaultdict(set)
    for names_of in OUTSIDE.values():
        for module, names in names_of.items():
            known[module] |= names
    assert {module: names - known[module] for module, names in outside.items() if names - known[module]} == {}


def assigned(tree: ast.Module) -> Iterator[str]:
    """Yield each attribute that is assigned on another object than self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not is_self(node.value):
            yield ast.unparse(node)


def is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def declared(tree: ast.Module) -> set[str]:
    """Return the attributes of a module's classes: annotated, in __slots__, or set on self."""
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                names.add(inner.target.id)
            elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                if is_self(inner.value):
                    names.add(inner.attr)
            elif isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == "__slots__":
                names.update(re.findall(r"'(\w+)'", ast.unparse(inner.value)))
    return names
