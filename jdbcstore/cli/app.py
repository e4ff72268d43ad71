"""Command group of ``jdbcstore``: the table of commands, help, shell completion and error handling."""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

import click

from jdbcstore import __version__
from jdbcstore.cli.exit_codes import ExitCode, PipeClosed, exit_code
from jdbcstore.cli.output import note, prepare_streams, write_line
from jdbcstore.cli.settings import DEFAULT_FILE, URL_VARIABLE, Settings, common_options
from jdbcstore.errors import StoreError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = (
    ("init", "status", "Create the missing tables and indexes"),
    (
        "status",
        "status",
        "Show destinations, durable subscriptions, claims, limits, the master and the tables",
    ),
    ("broker", "broker", "Serve the store to STOMP and JMS clients while this process is the master"),
    ("top", "top", "Watch a running broker: its destinations and rates, with keys for operations"),
    ("console", "console", "Serve read-only web pages about the database"),
    ("passwd", "broker", "Set the password of a user in a broker's users file"),
    ("send", "send", "Send messages durably"),
    ("browse", "browse", "Show the messages of a destination in delivery order, without removing them"),
    ("consume", "browse", "Print messages, then acknowledge them"),
    ("purge", "status", "Remove the messages of a destination"),
    (
        "subscriptions",
        "subscriptions",
        "List durable subscriptions and their pending messages, for one topic or for all",
    ),
    ("subscribe", "subscriptions", "Create a durable subscription to a topic, unless it exists"),
    ("unsubscribe", "subscriptions", "Delete a durable subscription"),
    ("dlq", "dlq", "List, retry or purge dead letters"),
    ("flow", "flow", "Pause shared queues, or limit their claims and rates"),
    ("outbox", "outbox", "Show or change the table of messages that SQL statements insert"),
    ("cleanup", "status", "Remove topic messages that every durable subscription has acknowledged"),
    ("manage", "manage", "Control the running broker"),
    ("xa", "xa", "List prepared XA transactions, and commit or roll them back manually"),
    ("migrate", "migrate", "Migrate the tables of any ActiveMQ or jdbcstore version"),
    ("schema", "migrate", "Inspect the schema without changing it"),
    ("copy", "transfer", "Copy a store to another database of any vendor, and verify the copy"),
    ("import", "importing", "Import the messages of a stopped ActiveMQ or Artemis"),
    ("audit", "transfer", "Compare two stores row by row and byte by byte"),
    ("archive", "archive", "Archive messages as Parquet files in FOLDER, each message once"),
    ("export", "export", "Append new messages to a Delta table, or an Iceberg table, each message once"),
    ("restore", "archive", "Restore messages from the archive in FOLDER, exactly as they were"),
    ("replay", "replay", "Send messages from an archive or a journal again, as new messages"),
    ("journal", "journal", "Check, dump, repair and replay the files of a journal"),
    ("lock", "lock", "Show the holder of the lock, its expiry, the clock skew and the epoch"),
    ("wait-master", "lock", "Wait until a broker is the master"),
    ("config", "config", "Show or convert the configuration"),
    ("sql", "sql", "Query messages with DuckDB or Spark SQL"),
    ("report", "sql", "Write an HTML report with plots of the named queries"),
    ("doctor", "doctor", "Check the database, and list the installed drivers and tools"),
    ("demo", "demo_command", "Kill a broker repeatedly, and verify that no message is lost"),
)
"""Name, module and one line of help of each command; a module is imported when its command runs."""


def attribute_of(name: str) -> str:
    """Return the name of a command's function in its module."""
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")


class _Deferred(click.Command):
    """A command whose module has not been imported."""

    def __init__(self, name: str, module: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._place = f"jdbcstore.cli.{module}", attribute_of(name)

    def load(self) -> click.Command:
        """Import the module of the command.

        Importing creates many objects but no garbage, so collection is off during the import, and the objects
        are frozen.
        """
        module, attribute = self._place
        gc.disable()
        try:
            command: click.Command = getattr(import_module(module), attribute)
        finally:
            gc.freeze()
            gc.enable()
        return command


class Group(click.Group):
    """Commands in the order of first use. Listing and completing their names imports no command."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*self.commands]

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        command = self.commands.get(name)
        if isinstance(command, _Deferred):
            command = self.commands[name] = command.load()
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, command.get_short_help_str(_ANY_LENGTH).rstrip("."))
            for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [name for name in self.commands if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.commands[name].get_short_help_str()) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:
        import logging

        logging.getLogger("jdbcstore").addHandler(logging.NullHandler())
        if ctx.ensure_object(Settings).debug:
            logging.basicConfig(level=logging.INFO)
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error
        return code


_ANY_LENGTH = 1_000

_EXIT_CODES = "\n".join(f"  {code:>3}  {code.text}" for code in ExitCode)


@click.group(
    cls=Group,
    params=[*common_options()],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{_EXIT_CODES}",
)
@click.option(
    *("-V", "--version"),
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda context, _, wanted: _print_versions(context) if wanted else None,
    help="Show the versions to quote in a bug report.",
)
def commands() -> None:
    """Run a command."""


def _print_versions(context: click.Context) -> None:
    from jdbcstore.util.versions import versions

    (name, own), *others = versions(__version__)
    write_line(f"{name}, version {own}")
    for name, version in others:
        write_line(f"  {name} {version}")
    context.exit()


commands.help = f"""A message store on ActiveMQ's JDBC tables, in any SQL database.

DEST is queue://NAME, topic://NAME, or the bare name of a queue.

The store is selected by --url, else by the environment variable {URL_VARIABLE}, else by url in the
configuration file; the default is the SQLite file {DEFAULT_FILE}. A URL is SQLAlchemy's
(postgresql://user:password@host/database) or JDBC's (jdbc:postgresql://host/database?user=me).
The configuration file is a jdbcstore.toml or an activemq.xml: the file of --config, else jdbcstore.toml in
the working directory.
--url, --config, --json and --debug are accepted before and after the command.
"""

for _entry in _COMMANDS:
    commands.add_command(_Deferred(*_entry))


@commands.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(jdbcstore completion bash)"         in ~/.bashrc
    zsh:   eval "$(jdbcstore completion zsh)"          in ~/.zshrc
    fish:  jdbcstore completion fish | source          in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the choices are click's own
    write_line(kind(commands, {}, "jdbcstore", "_JDBCSTORE_COMPLETE").source())


@commands.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command: "jdbcstore help send" is "jdbcstore send --help"."""
    root = context.find_root()
    command: click.Command = root.command
    for name in names:
        inner = command.get_command(root, name) if isinstance(command, click.Group) else None
        if inner is None:
            raise click.UsageError(f"there is no command {' '.join(names)!r}", root)
        command = inner
    write_line(command.get_help(click.Context(command, info_name=" ".join(("jdbcstore", *names)))))


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns the exit code, with any error reported on stderr."""
    if sys.stdout is None:
        # A consumed message is acknowledged after it is printed, so it needs an open output.
        note("standard output is closed; nothing was done. Open it, or redirect it to a file")
        return ExitCode.FAILED
    prepare_streams()
    settings = Settings()
    try:
        code = commands.main(arguments, prog_name="jdbcstore", standalone_mode=False, obj=settings)
    except PipeClosed:
        _discard_output()
        return ExitCode.PIPE_CLOSED
    except click.Abort:
        note("interrupted")
        return ExitCode.INTERRUPTED
    except click.UsageError as error:
        _explain(error)
        return ExitCode.USAGE
    except click.ClickException as error:
        note(error.format_message())
        return error.exit_code
    except StoreError as error:
        return _failed(error, str(error), exit_code(error), settings)
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return _failed(error, _of_system(error), ExitCode.FAILED, settings)
    except Exception as error:
        text = f"unexpected error, a defect in jdbcstore: {type(error).__name__}: {error}"
        return _failed(error, f"{text}; run again with --debug and report it", ExitCode.FAILED, settings)
    return code or ExitCode.DONE


def _of_system(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{error.strerror}; stop the process that listens there, or choose another address"
    return str(error)


def _explain(error: click.UsageError) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)  # the help of the group
        return
    command = error.ctx.command_path if error.ctx else "jdbcstore"
    note(f"{error.format_message()} (see: {command} --help)")


def _discard_output() -> None:
    """Redirect stdout to /dev/null, because the interpreter's flush at exit would change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception, text: str, code: ExitCode, settings: Settings) -> ExitCode:
    if settings.debug:
        from traceback import print_exception

        print_exception(error)
    note(" ".join(text.split()))
    return code
