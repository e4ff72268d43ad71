"""The size of a class, the names of classes, and who sets an attribute: what keeps a room simple.

The list has what is an exception, by its reason.
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

# Attributes that are set by another module than the one that declares them, by the reason.
OUTSIDE: dict[str, dict[str, set[str]]] = {
    "Objects of a library.": {
        "analytics/decoding.py": {"decode.__name__"},
        "analytics/spark_session.py": {
            "accumulators.AccumulatorTCPServer.handle_error",
            "gateway.Popen",
            "logging.getLogger(logger).disabled",
        },
        "broker/console/rendering.py": {"self._environment.filters", "self._environment.globals"},
        "broker/transport/connector.py": {"context.minimum_version", "context.verify_mode"},
        "cli/app.py": {"commands.help"},
        "cli/logs.py": {"logging.getLogger(AUDIT_LOG).propagate"},
        "cli/messages.py": {"table.expand"},
        "cli/top_screen.py": {"field.value"},
        "config/xml/beans.py": {
            "self.parser.CharacterDataHandler",
            "self.parser.EndElementHandler",
            "self.parser.EntityDeclHandler",
            "self.parser.StartElementHandler",
            "self.placeholders.environment_wins",
        },
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
        "database/adapters/writing.py": {"cursor.connection.autocommit"},
        "database/adapters/sqlite.py": {"cursor.row_factory"},
        "database/engine.py": {"driver.pooling"},
        "database/migrations/migration.py": {
            "context.impl.command_terminator",
            "self._dialect.insert_returning",
        },
        "database/migrations/scripts.py": {"acks.key", "acks.key_name", "self._dialect.insert_returning"},
        "database/migrations/steps.py": {"column.nullable", "there.columns", "there.key", "there.key_name"},
        "database/statements/builder.py": {"other.paramstyle", "other.positional"},
        "message/message.py": {"Message.__init__", "fields.__class__"},
        "plugins/coilmq.py": {"message.cmd", "start.QueueManager"},
        "util/core/build.py": {"command.build_lib", "command.build_temp"},
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
    "A method would cost a frame for each message.": {
        "stores/jdbc/writer/writer.py": {"unit.completion"},
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
    "The batch is the caller's own, and is not shared before it is written.": {
        "database/connection.py": {"batch.removes"},
        "stores/jdbc/writer/audited.py": {"call.adding.adds"},
    },
    "A statement is marked before anybody else has it.": {
        "database/statements/builder.py": {"page.is_by_id"},
    },
    "A signal handler that raises must find it set or not, never a call under way.": {
        "journal/log.py": {"entry.taken"},
    },
    "A segment's end belongs to the storage that appends to it.": {
        "journal/storage.py": {"current.end"},
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
    "Writer, recovery and checkpointer set the overlay's marks, each while it holds the overlay's lock.": {
        "stores/journaled/checkpointer.py": {"self._overlay.written"},
        "stores/journaled/recovery.py": {
            "overlay.journaled",
            "overlay.last_number",
            "self.overlay.found",
            "self.overlay.journaled",
            "self.overlay.written",
        },
        "stores/journaled/writer.py": {
            "overlay.journaled",
            "overlay.last_number",
            "overlay.last_sequence",
            "overlay.written",
        },
    },
    "Writer and journal need each other: the journal is opened with the writer's callbacks.": {
        "stores/journaled/store.py": {"writer.journal"},
        "stores/replicated/follower.py": {"self._writer.journal"},
    },
    "Python's parser of XML gets its callbacks as attributes.": {
        "message/readable.py": {
            "parser.CharacterDataHandler",
            "parser.CommentHandler",
            "parser.EndCdataSectionHandler",
            "parser.EndElementHandler",
            "parser.ProcessingInstructionHandler",
            "parser.StartCdataSectionHandler",
            "parser.StartElementHandler",
            "parser.XmlDeclHandler",
        },
    },
    "Streams of asyncio that are upgraded to TLS are not marked as such, and warn at their end.": {
        "journal/stream/connection.py": {"writer.transport.get_protocol()._over_ssl"},
    },
    "A transaction is decided under its own lock, by the one who holds it.": {
        "stores/journaled/transactions.py": {"held.is_decided"},
    },
    "The modules of the memory store share one state, under one lock.": {
        "stores/memory/destinations.py": {"self._state.last_sequence", "stored.message", "stored.size"},
        "stores/memory/store.py": {
            "self._state.changed",
            "self._state.closed",
            "self._state.find_body",
            "shelf.recorded",
            "state.last_sequence",
            "state.mark",
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
    assert [
        f"{module}: {node.name}"
        for module, node in classes()
        if module != "abc.py" and (length(node) > LINES or len(methods(node)) > METHODS)
    ] == []


def length(node: ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def methods(node: ast.ClassDef) -> list[ast.stmt]:
    return [member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_a_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(list)
    for module, node in classes():
        # Django looks for a class of this name in each command and migration.
        if not node.name.startswith("_") and not (
            module.startswith("plugins/django/") and node.name in ("Command", "Migration")
        ):
            homes[node.name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


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
    assert outside == known


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
