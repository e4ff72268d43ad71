"""The command group, and what becomes of errors."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any

import click
from click.shell_completion import get_completion_class

from jdbcstore.cli.archiving import archive, restore
from jdbcstore.cli.asking import sql
from jdbcstore.cli.brokering import broker
from jdbcstore.cli.configuring import config
from jdbcstore.cli.dead_letters import dlq
from jdbcstore.cli.deciding import xa
from jdbcstore.cli.diagnosing import doctor
from jdbcstore.cli.failures import ExitCode, PipeClosed, exit_code
from jdbcstore.cli.journaling import journal
from jdbcstore.cli.locking import lock, wait_master
from jdbcstore.cli.managing import cleanup, init, purge, status
from jdbcstore.cli.migrating import migrate, schema
from jdbcstore.cli.moving import audit, copy
from jdbcstore.cli.options import DEFAULT_FILE, URL_VARIABLE, Settings, common_options
from jdbcstore.cli.output import note, prepare_streams, write_line
from jdbcstore.cli.reading import browse, consume
from jdbcstore.cli.replaying import replay
from jdbcstore.cli.reporting import report
from jdbcstore.cli.sending import send
from jdbcstore.cli.showing import demo
from jdbcstore.cli.subscribing import subscribe, subscriptions, unsubscribe
from jdbcstore.cli.users import passwd
from jdbcstore.errors import StoreError


class Group(click.Group):
    """Lists its commands in the order in which they are used first."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [*self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, with the first sentence of each command's help whole."""
        rows = [
            (name, self.commands[name].get_short_help_str(_ANY_LENGTH)) for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
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
@click.version_option(None, "-V", "--version", package_name="jdbcstore")
def commands() -> None:
    """A message store on ActiveMQ's own tables, in any SQL database."""


commands.help = f"""A message store on ActiveMQ's own tables, in any SQL database.

DEST is queue://NAME, topic://NAME, or the bare name of a queue.

The store is named by --url, else by the environment variable {URL_VARIABLE}, else by url in the
configuration file; else it is the SQLite file {DEFAULT_FILE}. A URL is SQLAlchemy's
(postgresql://user:password@host/database) or JDBC's (jdbc:postgresql://host/database?user=me).
The configuration file is a jdbcstore.toml or an activemq.xml: that of --config, else jdbcstore.toml in the
working directory.
--url, --config, --json and --debug may stand before the command or behind it.
"""


@click.command
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of a command: "jdbcstore help send" is "jdbcstore send --help"."""
    root = context.find_root()
    found: click.Command = root.command
    for name in names:
        context = click.Context(found, parent=root, info_name=" ".join(("jdbcstore", *names)))
        inner = found.get_command(root, name) if isinstance(found, click.Group) else None
        if inner is None:
            raise click.UsageError(f"there is no command {' '.join(names)!r}", root)
        found = inner
    write_line(found.get_help(click.Context(found, info_name=" ".join(("jdbcstore", *names)))))


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes command lines in SHELL.

    \b
    bash:  eval "$(jdbcstore completion bash)"         in ~/.bashrc
    zsh:   eval "$(jdbcstore completion zsh)"          in ~/.zshrc
    fish:  jdbcstore completion fish | source          in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the choices are click's own
    write_line(kind(commands, {}, "jdbcstore", "_JDBCSTORE_COMPLETE").source())


for _command in (
    init, status, broker, passwd, send, browse, consume, purge, subscriptions, subscribe, unsubscribe, dlq,
    cleanup, xa, migrate, schema, copy, audit, archive, restore, replay, journal, lock, wait_master, config,
    sql, report, doctor, demo, completion,
):  # fmt: skip
    commands.add_command(_command)
commands.add_command(help_, "help")


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit code, having said on stderr what went wrong."""
    if sys.stdout is None:
        # What is consumed is acknowledged once it is printed.
        note("standard output is closed; nothing was done. Open it, or send it to a file")
        return ExitCode.FAILED
    prepare_streams()
    logging.getLogger("jdbcstore").addHandler(logging.NullHandler())
    settings = Settings()
    try:
        code = commands.main(arguments, prog_name="jdbcstore", standalone_mode=False, obj=settings)
    except PipeClosed:
        _give_up_output()
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
            _give_up_output()
        return _failed(error, str(error), ExitCode.FAILED, settings)
    except Exception as error:
        text = f"this is a defect in jdbcstore: {type(error).__name__}: {error}"
        return _failed(error, f"{text}; run again with --debug and report it", ExitCode.FAILED, settings)
    return code or ExitCode.DONE


def _explain(error: click.UsageError) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)  # the help of the group
        return
    command = error.ctx.command_path if error.ctx else "jdbcstore"
    note(f"{error.format_message()} (see: {command} --help)")


def _give_up_output() -> None:
    """Nothing more is written, also not by the interpreter, which would end with another exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception, text: str, code: ExitCode, settings: Settings) -> ExitCode:
    if settings.debug:
        traceback.print_exception(error)
    note(" ".join(text.split()))
    return code
