"""The command group, and what becomes of errors."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any

import click

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
from jdbcstore.cli.output import note, prepare_streams
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

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.ensure_object(Settings).debug:
            logging.basicConfig(level=logging.INFO)
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise PipeClosed from error
        return code


_EXIT_CODES = "\n".join(f"  {code:>3}  {code.text}" for code in ExitCode)


@click.group(
    cls=Group,
    params=[*common_options()],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nExit codes:\n{_EXIT_CODES}",
)
@click.version_option(package_name="jdbcstore")
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

for _command in (
    init, status, broker, passwd, send, browse, consume, purge, subscriptions, subscribe, unsubscribe, dlq,
    cleanup, xa, migrate, schema, copy, audit, archive, restore, replay, journal, lock, wait_master, config,
    sql, report, doctor, demo,
):  # fmt: skip
    commands.add_command(_command)


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; returns its exit code, having said on stderr what went wrong."""
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
        command = error.ctx.command_path if error.ctx else "jdbcstore"
        note(f"{error.format_message()} (see: {command} --help)")
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


def _give_up_output() -> None:
    """Nothing more is written, also not by the interpreter, which would end with another exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception, text: str, code: ExitCode, settings: Settings) -> ExitCode:
    if settings.debug:
        traceback.print_exception(error)
    note(" ".join(text.split()))
    return code
