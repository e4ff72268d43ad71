"""A process that has everything imported, and forks the brokers and workers of the campaign, one a line.

It is run as a file, so that the ``jdbcstore`` of another version can be first in ``PYTHONPATH``. Its children
die with it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
from contextlib import suppress
from typing import NoReturn

_PDEATHSIG = 1
_PRELOADED = (
    "jdbcstore.broker.management.jolokia",
    "jdbcstore.broker.openwire.session",
    "jdbcstore.broker.process.health",
    "jdbcstore.broker.process.host",
    "jdbcstore.broker.stomp.session",
    "jdbcstore.cli.broker",
    "jdbcstore.database.adapters.mysql",
    "jdbcstore.database.adapters.postgresql",
    "jdbcstore.database.adapters.sqlite",
    "jdbcstore.lockers.database",
    "jdbcstore.stores.claims",
    "jdbcstore.stores.jdbc.store",
    "jdbcstore.stores.journaled.store",
    "jdbcstore.stores.opening",
    "psycopg",
    "pymysql.cursors",
    "sqlite3",
)


def serve(preloaded: list[str]) -> None:
    """Fork a process for each line of standard input, and answer with its number."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for name in (*_PRELOADED, *preloaded):
        with suppress(ImportError):
            importlib.import_module(name)
    if mutation := os.environ.get("CAMPAIGN_MUTATION"):
        importlib.import_module("tests.support.campaign.mutations").MUTATIONS[mutation]()
    gc.freeze()
    for line in sys.stdin:
        log, module, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            _live(log, module, arguments)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def _live(log: str, module: str, arguments: list[str]) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        time.tzset()
        sys.argv = [module, *arguments]
        if module == "jdbcstore":
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            importlib.import_module(module).main(*arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1:])
