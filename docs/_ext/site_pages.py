"""Generated pages of the site: navigation, help of commands, and API, options and HTTP from docstrings.

The pages of docs/ are plain Markdown, which reads well in a folder too. What only the site needs is
written into docs/generated, which git ignores, when a build begins.
"""

from __future__ import annotations

import csv
import re
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import Field

    from sphinx.application import Sphinx

    from jdbcstore.broker.operations import Operation

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent

NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("what-it-is", "install", "quickstart", "quickstart-workers", "quickstart-broker"),
    "Python": (
        *("guide/queues-and-topics", "guide/messages", "guide/durable-subscriptions"),
        *("guide/transactions", "guide/xa", "guide/priorities", "guide/selectors"),
        *("guide/expiry-purge-cleanup", "guide/errors", "guide/asyncio", "guide/testing-your-program"),
        *("guide/routing", "guide/broker", "guide/coilmq", "guide/testing"),
    ),
    "Workers": (
        *("guide/worker", "guide/claims", "guide/limits", "guide/inbox", "guide/outbox"),
        *("guide/celery", "guide/celery-queues", "guide/django", "guide/django-backend"),
    ),
    "The broker": (
        *("guide/stomp", "guide/jms", "guide/websocket", "guide/message-groups"),
        *("guide/virtual-destinations", "guide/scheduled", "guide/large-messages", "guide/dead-letters"),
        *("guide/security", "guide/configuration", "guide/activemq-xml"),
    ),
    "Operate": (
        *("guide/production", "deploy/index", "guide/sizing", "guide/console", "guide/operating"),
        *("guide/monitoring", "guide/troubleshooting", "guide/backup", "guide/upgrading"),
        *("guide/migrations", "guide/locking", "guide/io-exceptions", "guide/clusters", "guide/journal"),
        *("guide/journal-repair", "guide/journal-stream", "guide/three-machines", "guide/jolokia"),
    ),
    "From ActiveMQ and Artemis": (
        *("guide/from-activemq", "guide/activemq", "guide/file-stores"),
        *("guide/from-artemis", "stomp-differences", "artemis"),
    ),
    "Analytics": (
        *("spark", "spark-views", "spark-streams", "spark-cluster", "arrow"),
        *("guide/archiving", "guide/replay", "guide/moving"),
    ),
    "Reference": (
        *("cli", "generated/commands/index", "generated/json", "generated/options", "http"),
        *("generated/http", "reference", "generated/api/index", "guide/settings", "generated/settings"),
        *("generated/statements", "generated/errors", "generated/locks"),
        *("generated/metrics", "generated/columns", "generated/artemis"),
        *("guide/replacing", "vendors", "generated/scripts", "compatibility", "generated/tested", "glossary"),
    ),
    "The project": (
        *("benchmarks", "compared", "reliability", "design", "generated/packages", "concurrency"),
        *("decisions/index", "patterns", "policy"),
        *(
            "releases/0.2.0",
            "releases/0.1.0",
            "generated/changelog",
            "generated/security",
            "generated/contributing",
        ),
        *("generated/tests",),
    ),
}
"""The sections of the site, and their pages in order. Every page is in one section."""

COPIES = {
    "README.md": "index",
    "CHANGELOG.md": "generated/changelog",
    "SECURITY.md": "generated/security",
    "CONTRIBUTING.md": "generated/contributing",
    "sql/README.md": "generated/scripts",
    "tests/README.md": "generated/tests",
    "tests/tested.md": "generated/tested",
}
"""Files outside of docs/ that the site has, and the page each becomes."""


def public_names() -> dict[str, tuple[str, ...]]:
    """Each public module, and its public names, from the list beside docs/reference.md."""
    import jdbcstore

    with (DOCS / "public-names.csv").open(encoding="utf-8", newline="") as file:
        found = {row["module"]: tuple(row["names"].split()) for row in csv.DictReader(file)}
    return {"jdbcstore": tuple(jdbcstore.__all__), **found}


def api_pages() -> dict[str, str]:
    """The API reference: a page of reStructuredText for each public module, by its path."""
    modules = public_names()
    pages = {}
    for module, names in modules.items():
        blocks = [_title(module, "="), f".. py:module:: {module}", ""]
        for name in _in(module, names):
            kind, place = _kind(module, name)
            if kind is None:
                continue
            own = module == "jdbcstore" or not _exported(name, place)
            blocks += [f".. auto{kind}:: {module}.{name}", *([] if own else ["   :no-index:"])]
            if kind in ("class", "exception"):
                blocks += ["   :members:"]
            blocks += [""]
        pages[f"api/{module}.rst"] = "\n".join(blocks)
    listed = "\n".join(f"   {module}" for module in modules)
    pages["api/index.rst"] = f"{_title('API from docstrings', '=')}{_API}\n.. toctree::\n\n{listed}\n"
    return pages


_API = """
Every public name with its docstring: what it promises, its units, and what it raises. What belongs
together is told in the :doc:`reference </reference>` and in the guide. Names that are not here may
change.

"""


def _in(module: str, names: tuple[str, ...]) -> list[str]:
    """The names of a table's row that are this module's own: a row may list those of several modules."""
    from importlib import import_module

    loaded = import_module(module)
    if module == "jdbcstore.errors":
        return [name for name, value in vars(loaded).items() if isinstance(value, type) and name[0].isupper()]
    if not names:
        return []
    return [name for name in dict.fromkeys(names) if hasattr(loaded, name)]


def _kind(module: str, name: str) -> tuple[str | None, str]:
    from importlib import import_module
    from inspect import isclass

    value = getattr(import_module(module), name)
    place = getattr(value, "__module__", "")
    if isclass(value):
        return ("exception" if issubclass(value, BaseException) else "class"), place
    return ("function" if callable(value) else "data"), place


def _exported(name: str, place: str) -> bool:
    """Whether the page of ``jdbcstore`` describes this name already."""
    import jdbcstore

    return name in jdbcstore.__all__ and getattr(jdbcstore, name).__module__ == place


def command_pages() -> dict[str, str]:
    """The help of each command: a page for each command or family of commands, by its path."""
    from jdbcstore.cli.app import _COMMANDS, attribute_of

    pages = {}
    for name, module, _ in _COMMANDS:
        attribute = f"jdbcstore.cli.{module}:{attribute_of(name)}"
        pages[f"commands/{name}.rst"] = (
            f"{_title(f'jdbcstore {name}', '=')}\n.. click:: {attribute}\n"
            f"   :prog: jdbcstore {name}\n   :nested: full\n"
        )
    own = [("completion", "completion"), ("help", "help_")]
    for name, attribute in own:
        pages[f"commands/{name}.rst"] = (
            f"{_title(f'jdbcstore {name}', '=')}\n.. click:: jdbcstore.cli.app:{attribute}\n"
            f"   :prog: jdbcstore {name}\n   :nested: full\n"
        )
    listed = "\n".join(f"   {path.stem}" for path in map(Path, pages))
    text = "What ``jdbcstore COMMAND --help`` prints. The text around it is in :doc:`/cli`."
    pages["commands/index.rst"] = (
        f"{_title('Help of each command', '=')}\n{text}\n\n.. toctree::\n\n{listed}\n"
    )
    return pages


def settings_page() -> str:
    """Every setting of ActiveMQ and Artemis with its fate, from the list beside the guide."""
    lines = [_title("Every setting", "="), _SETTINGS]
    with (DOCS / "guide" / "settings.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.reader(file))[1:]
    for fate in ("refused", "not supported"):
        reasons: dict[str, list[str]] = {}
        for _, element, setting, _, why in (row for row in listed if row[3] == fate):
            reasons.setdefault(why, []).append(f"``{setting or element}``")
        lines += [_title(fate.capitalize(), "-"), ".. list-table::", "   :header-rows: 1", ""]
        lines += ["   * - settings", "     - reason"]
        for why, names in reasons.items():
            shown = why.replace("*", "\\*")
            lines += [f"   * - {', '.join(dict.fromkeys(names))}", f"     - {shown}"]
        lines.append("")
    for (name, element), rows in groupby(listed, key=lambda row: (row[0], row[1])):
        title = element if name == "activemq.xml" else f"{element} of {name}"
        lines += [_title(title, "-"), ".. list-table::", "   :header-rows: 1", ""]
        lines += ["   * - setting", "     - fate", "     - supported as, or reason"]
        for _, _, setting, fate, why in rows:
            shown = f"``{why}``" if fate == "supported" and why else why.replace("*", "\\*")
            lines += [f"   * - ``{setting or element}``", f"     - {fate}", f"     - {shown}"]
        lines.append("")
    return "\n".join(lines)


def json_page() -> str:
    """The keys of ``--json``, from the list beside the page of the command line."""
    lines = [_title("Keys of JSON", "="), "What each command prints with ``--json``; see :doc:`/cli`.", ""]
    with (DOCS / "cli-json.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.reader(file))[1:]
    for command, rows in groupby(listed, key=lambda row: row[0]):
        lines += [_title(f"jdbcstore {command}", "-"), ".. list-table::", "   :header-rows: 1", ""]
        lines += ["   * - key", "     - of", "     - meaning"]
        for _, output, key, meaning in rows:
            lines += [f"   * - {f'``{key}``' if key else ''}", f"     - {output}", f"     - {meaning}"]
        lines.append("")
    return "\n".join(lines)


_SETTINGS = """
The settings of an ``activemq.xml`` and of a ``broker.xml``, and what jdbcstore does with each.
:doc:`/guide/settings` explains the fates.
"""


def option_pages() -> dict[str, str]:
    """The options of a configuration: a table for each class of jdbcstore.config, from its docstrings."""
    from dataclasses import fields

    parts = [_OPTIONS]
    for title, section, kinds in _option_classes():
        parts += [f"## {title}\n", f"{section}\n"]
        for kind in kinds:
            texts = _field_docstrings(kind)
            head = f"`{kind.type}`" if hasattr(kind, "type") else "option"
            rows = [
                f"| `{one.name}` | {_default(one)} | {_choices(one)}{_inline(texts[one.name])} |"
                for one in fields(kind)
            ]
            if rows:
                parts += [f"| {head} | default | |\n|---|---|---|\n" + "\n".join(rows) + "\n"]
            else:
                parts += [f"`{kind.type}` has no options.\n"]
    return {"options.md": "\n".join(parts)}


_OPTIONS = """# Options

All options of a `jdbcstore.toml`, with their defaults. [Configuration](../guide/configuration.md) shows
how to use them. Durations are seconds and sizes are bytes; a size may also be a string such as
`"20 mb"`. ActiveMQ's spelling of a name, such as `cleanupPeriod`, has ActiveMQ's unit: mostly
milliseconds.
"""


def _option_classes() -> list[tuple[str, str, tuple[Any, ...]]]:
    """Each section of a configuration: its title, a sentence about it, and its classes."""
    from typing import get_args

    from jdbcstore.config import broker, data_source, journal, locker, plugins, policy, routed, store, virtual

    strategies = (policy.DeadLetterStrategy, policy.SlowConsumerStrategy, policy.SubscriptionRecoveryPolicy)
    return [
        ("Store", "At the top of the file.", (store.StoreConfig,)),
        ("Database", "At the top of the file, or a section `data_source`.", (data_source.DataSourceConfig,)),
        ("Broker", "In `[broker]`.", (broker.BrokerConfig,)),
        ("Connectors", "In each `[[broker.connectors]]`.", (broker.ConnectorConfig,)),
        ("Virtual topics", "In each `[[broker.virtual_topics]]`.", (virtual.VirtualTopicConfig,)),
        (
            "Composite destinations",
            "In each `[[broker.composite_destinations]]`, and in its `forward_to`.",
            (virtual.CompositeConfig, virtual.ForwardConfig),
        ),
        ("Plug-ins", "In each `[[broker.plugins]]`, by its `type`.", get_args(plugins.PluginConfig)),
        ("Policies", "In each `[[policies]]`.", (policy.PolicyEntry,)),
        ("Redelivery", "In `redelivery_policy` of a policy.", (policy.RedeliveryPolicy,)),
        *(
            (title, f"In `{option}` of a policy, by its `type`.", get_args(union))
            for (title, option), union in zip(
                (
                    ("Dead letters", "dead_letter_strategy"),
                    ("Slow consumers", "slow_consumer_strategy"),
                    ("Retroactive subscribers", "subscription_recovery_policy"),
                ),
                strategies,
                strict=True,
            )
        ),
        ("Lockers", "In `[locker]`, by its `type`.", get_args(locker.LockerConfig)),
        (
            "Failures of the database",
            "In `[io_exception_handler]`, by its `type`.",
            get_args(locker.IOExceptionHandlerConfig),
        ),
        ("Journal", "In `[journal]`.", (journal.JournalConfig,)),
        ("Several stores", "In each `[[stores]]`.", (routed.RoutedStoreConfig,)),
    ]


def _field_docstrings(kind: type) -> dict[str, str]:
    """The strings below the fields of a dataclass and of its bases."""
    import ast
    from inspect import getsource

    found = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("jdbcstore.") or base.__name__ == "Options":
            continue
        body = ast.parse(getsource(base)).body[0]
        for one, below in pairwise(getattr(body, "body", ())):
            if isinstance(one, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[ast.unparse(one.target)] = getattr(below.value, "value", "")
    return found


def _default(one: Field[Any]) -> str:
    from dataclasses import MISSING, is_dataclass

    value = {} if one.default is MISSING else one.default
    if is_dataclass(value):
        return f"`{getattr(value, 'type', value)}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{getattr(each, 'name', each)}`" for each in value) or "none"
    unit = next((f" ({value // size} {name})" for name, size in _SIZES if _is_of(one, value, size)), "")
    return f"`{value!r}`{unit}"


_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def _is_of(one: Field[Any], value: Any, size: int) -> bool:
    return bool(one.metadata.get("size") and value and value % size == 0)


def _choices(one: Field[Any]) -> str:
    choices = one.metadata.get("choices") or ()
    return f"{', '.join(f'`{choice}`' for choice in choices)}. " if choices else ""


def _inline(text: str) -> str:
    """The first paragraphs of a docstring as the text of a cell of Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    return " ".join(text.split()).replace("|", "\\|")


def http_pages() -> dict[str, str]:
    """The operations of the HTTP API, from the table that the broker serves them by."""
    from jdbcstore.broker.operations import OPERATIONS

    parts = [_HTTP]
    for title, of in (("Views", "GET"), ("Operations", ""), ("Shared queues", "claims")):
        rows = [
            f"| {_requests(one)} | {one.role} | {_parameters(one)} | {_operation_text(one)} |"
            for one in OPERATIONS.values()
            if of == ("claims" if one.part == "claims" else "GET" if one.only_reads else "")
        ]
        parts += [
            f"## {title}\n",
            "| request | role | fields | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n",
        ]
    for kind in _views():
        texts = _field_docstrings(kind)
        rows = [f"| `{name}` | {_inline(text)} |" for name, text in texts.items()]
        title = _TITLES.get(kind.__name__, kind.__name__.removesuffix("View").lower())
        parts += [f"## Fields of a {title}\n", "| field | |\n|---|---|\n" + "\n".join(rows) + "\n"]
    return {"http.md": "\n".join(parts)}


_TITLES = {"ScheduledView": "scheduled message", "LockEvent": "change of the mastership"}


def _views() -> tuple[type, ...]:
    from jdbcstore.broker.management import views

    return (
        *(views.BrokerView, views.DestinationView, views.ConnectionView, views.SubscriptionView),
        *(views.TransactionView, views.ScheduledView, views.MastershipView, views.LockEvent, views.StoreView),
    )


_HTTP = """# HTTP operations

Every request of the [HTTP API](../http.md), which explains logins, errors, selections and pages. The
fields of a `GET` are in the query; other requests have a JSON object in the body.
"""


def _requests(operation: Operation) -> str:
    kinds = {"queue": ("queues",), "destination": ("queues", "topics"), "target": ("queues", "topics")}
    [(name, found), *_] = [(one, kinds[one]) for one in operation.path_names if one in kinds] or [("", ("",))]
    paths = [operation.path.replace(f"{{{name}}}", f"{kind}/NAME") for kind in found]
    first, *others = (re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), f"/api{path}") for path in paths)
    return ", ".join((f"`{operation.method} {first}`", *(f"`{other}`" for other in others)))


_FIELDS = {
    "choice": ("ids", "selector", "limit", "expired", "origin"),
    "selected": ("selector",),
    "messages": (
        *("body", "properties", "priority", "ttl_ms", "persistent", "correlation_id", "jms_type"),
        "reply_to",
    ),
}
"""The fields that a reader of :class:`~jdbcstore.broker.management.requests.Fields` takes by itself."""


def _parameters(operation: Operation) -> str:
    found = []
    for one in operation.parameters:
        names = _FIELDS[one.reader] if one.key is None else (one.key,)
        if one.limits.get("by_origin"):
            names = (*names, "origin")
        default = "" if one.default is None else f" ({one.default})"
        found += [f"`{name}`{default}" for name in names]
    return ", ".join(found)


def _operation_text(operation: Operation) -> str:
    from inspect import getdoc

    from jdbcstore.broker.management import management
    from jdbcstore.stores.claims.managing import SharedManagement

    parts = {
        "views": management.Views,
        "inside": management.BrokerInside,
        "watch": management.BrokerWatch,
        "broker": management.BrokerOperations,
        "queues": management.QueueOperations,
        "destinations": management.DestinationOperations,
        "subscriptions": management.SubscriptionOperations,
        "scheduled": management.ScheduledOperations,
        "holds": management.HoldOperations,
        "claims": SharedManagement,
    }
    part, _, name = operation.call.partition(".")
    text = (getdoc(getattr(parts[part], name)) or "").partition("\n\n")[0].partition("\n:")[0]
    text = _inline(text).removeprefix("Return ")
    return text[:1].upper() + text[1:]


def statement_pages() -> dict[str, str]:
    """The statements that can be replaced, from the list that checks them."""
    from jdbcstore.config.statements import PROPERTIES

    def listed(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    rows = [
        f"| `{one.name}` | {listed(one.parameters)} | {listed(one.columns)} |"
        f" {f'no: {one.unused}' if one.unused else 'yes'} |"
        for one in PROPERTIES
    ]
    return {"statements.md": _STATEMENTS + "\n".join(rows) + "\n"}


_STATEMENTS = """# Statements

The statements of the store that [you can replace](../guide/replacing.md). A statement with *no* in the
last column is accepted and not run.

| property | parameters, in the order of `?` | returns | run |
|---|---|---|---|
"""


def error_pages() -> dict[str, str]:
    """Each error below its base class, with its docstring."""
    from inspect import getdoc

    from jdbcstore import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]

    def rows(base: type, depth: int) -> list[str]:
        found = []
        for one in classes:
            if one.__bases__[0] is base:
                text = _inline(getdoc(one) or "")
                found += [f"| {'— ' * depth}`{one.__name__}` | {text} |", *rows(one, depth + 1)]
        return found

    return {"errors.md": _ERRORS + "\n".join(rows(errors.StoreError, 0)) + "\n"}


_ERRORS = """# Tree of errors

The classes of `jdbcstore.errors` with their attributes. All are derived from `StoreError`; a dash marks a
class that is derived from the one above. [Errors](../guide/errors.md) explains how to react to each.

| error | |
|---|---|
"""


def lock_pages() -> dict[str, str]:
    """The locks in the order in which they are taken, from the list beside the page of concurrency."""
    with (DOCS / "locks.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.reader(file))[1:]
    rows = []
    for number, locks in groupby(listed, key=lambda row: row[0]):
        group = list(locks)
        named = "; ".join(f"`{module}` `{name}`" for _, module, name, _ in group)
        rows.append(f"| {number} | {named} | {group[0][3]} |")
    with (DOCS / "threads.csv").open(encoding="utf-8", newline="") as file:
        threads = [
            f"| {', '.join(f'`{name}`' for name in names.split()) if '-' in names else names} | {task} |"
            for names, task in list(csv.reader(file))[1:]
        ]
    return {"locks.md": _LOCKS + "\n".join(rows) + "\n" + _THREADS + "\n".join(threads) + "\n"}


_LOCKS = """# Locks and threads

The locks of the package in their order, and its threads. The holder of a lock takes only locks of later
rows. [Threads, locks and durability](../concurrency.md) explains both.

## Locks

| | lock | guarantee to its holder |
|---|---|---|
"""


def column_pages() -> dict[str, str]:
    """The columns of the views, from the comments that ``DESCRIBE`` shows."""
    from jdbcstore.analytics.comments import COMMENTS

    rows = [f"| `{name}` | {_inline(text)} |" for name, text in COMMENTS.items()]
    return {"columns.md": _COLUMNS + "\n".join(rows) + "\n"}


_COLUMNS = """# Columns of the views

Every column of [Spark's views](../spark-views.md), which `DESCRIBE` shows too.

| column | |
|---|---|
"""


def package_pages() -> dict[str, str]:
    """Each package with its modules, and the first sentence of their docstrings."""
    import ast

    parts = [_PACKAGES]
    for folder in sorted(path.parent for path in (ROOT / "jdbcstore").rglob("__init__.py")):
        name = folder.relative_to(ROOT).as_posix()
        texts = {}
        for path in sorted(folder.glob("*.py")):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            texts[path.stem] = _inline(re.split(r"(?<=\w)\.(?:\s|$)|\n\n", text)[0])
        parts += [f"## {name}/\n", f"{texts.pop('__init__')}.\n"]
        rows = [f"| `{module}` | {text} |" for module, text in texts.items()]
        if rows:
            parts += ["| module | |\n|---|---|\n" + "\n".join(rows) + "\n"]
    return {"packages.md": "\n".join(parts)}


_PACKAGES = """# Packages and modules

The source tree, with the first sentence of each docstring. [Design](../design.md) explains how the parts
depend on each other.
"""


def metric_pages() -> dict[str, str]:
    """The metrics for Prometheus, from the list beside the dashboard."""
    with (DOCS / "monitoring" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        listed = list(csv.reader(file))[1:]
    parts = [_METRICS]
    for title, served in (("Of a broker", "broker"), ("Of jdbcstore console", "console")):
        rows = [
            f"| {', '.join(f'`{name}`' for name in names.split())} | {text} |"
            for by, names, text in listed
            if by == served
        ]
        parts += [f"## {title}\n", "| metric | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"]
    return {"metrics.md": "\n".join(parts)}


_METRICS = """# Metrics

All metrics of `/metrics`. [Monitoring](../guide/monitoring.md) explains how to collect them.
"""


def artemis_pages() -> dict[str, str]:
    """The differences of Artemis, from the list that the tests expect."""
    import tomllib

    listed = tomllib.loads((ROOT / "tests/interop/artemis/differences.toml").read_text(encoding="utf-8"))
    parts = [_ARTEMIS]
    for title, folder in (("STOMP", "behaviours"), ("JMS over OpenWire", "jms")):
        parts += [f"## {title}\n", "\n".join(f"- {text}" for text in listed[folder]) + "\n"]
    return {"artemis.md": "\n".join(parts)}


_ARTEMIS = """# Artemis: all differences from ActiveMQ

Each line is a difference of Artemis 2.44.0 from ActiveMQ Classic that a test observes.
[Artemis](../artemis.md) has the most important ones.
"""


_THREADS = """
## Threads

| thread | task |
|---|---|
"""


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n"


def write_pages() -> None:
    """Write what is generated, where it differs: an unchanged page is not built again."""
    folder = DOCS / "generated"
    pages = {**api_pages(), **command_pages(), **option_pages(), **http_pages()}
    pages |= {**statement_pages(), **error_pages(), **lock_pages()}
    pages |= {**metric_pages(), **artemis_pages(), **package_pages(), **column_pages()}
    pages["settings.rst"], pages["json.rst"] = settings_page(), json_page()
    for origin, page in COPIES.items():
        if page.startswith("generated/") and (ROOT / origin).exists():
            pages[f"{page.removeprefix('generated/')}.md"] = f"<!-- {origin} -->\n"
    for path in sorted(folder.rglob("*.*")):
        if str(path.relative_to(folder)) not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def read_copies(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take the text of a page from its file outside of docs/, and make links between files links of pages.

    A generated page, which a folder does not have, is ``**Name**<!-- generated/PAGE.md -->``: a link here.
    """
    origins = [origin for origin, page in COPIES.items() if page == docname and (ROOT / origin).exists()]
    base = DOCS / docname
    if origins:
        base = ROOT / origins[0]
        source[0] = base.read_text(encoding="utf-8")
        app.env.note_dependency(str(base))
    folder = base.parent

    def moved(match: re.Match[str]) -> str:
        name, anchor = match[2], match[3] or ""
        target = (folder / name).resolve()
        if not target.exists():
            return match[0]
        relative = target.relative_to(ROOT).as_posix()
        page = COPIES.get(relative)
        if page is None and target.is_relative_to(DOCS) and not target.is_relative_to(DOCS / "changes"):
            page = target.relative_to(DOCS).as_posix()
            return f"{match[1]}(/{page}{anchor})" if origins else match[0]
        if page is None:
            return f"{match[1].removeprefix('!').removeprefix('[').removesuffix(']')}"
        return f"{match[1]}(/{page}.md{anchor})"

    text = re.sub(r"(!?\[[^\]]*\])\(([^)\s:#]+)(#[^)\s]*)?\)", moved, source[0])
    text = re.sub(r"\*\*([^*]+)\*\*<!--\s+(generated/\S+\.(?:md|rst))\s+-->", r"[\1](/\2)", text)
    if docname == "index":
        text = text + _toctrees()
    source[0] = text


def written_pages() -> set[str]:
    """Return the pages of docs/ as the navigation names them: no changes, and of the decisions the list."""
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    own = {page.as_posix() for page in pages if not page.parts[0].startswith(("_", "changes", "generated"))}
    return {page for page in own if not page.startswith("decisions/0")} - {"index"}


def _toctrees() -> str:
    parts = []
    for caption, pages in NAVIGATION.items():
        listed = "\n".join(f"/{page}" for page in pages)
        parts.append(f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    return "".join(parts)


def escape_addresses(_app: Sphinx, _context: object, lines: list[str]) -> None:
    """Keep an example of an address in a command's help from becoming a link."""
    for number, line in enumerate(lines):
        if "``" not in line:
            lines[number] = re.sub(r"\b(?!https?:)([a-z]+)://", r"\1\\://", line)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda _app, _config: write_pages())
    app.connect("source-read", read_copies)
    app.connect("sphinx-click-process-options", escape_addresses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
