"""The settings of a session that is started here: ours, and the user's."""

from __future__ import annotations

from collections.abc import Mapping

from jdbcstore.analytics.java import resource_path
from jdbcstore.analytics.vendors import jars_beside, packages
from jdbcstore.errors import ConfigurationError

_NATIVE = "/usr/lib/x86_64-linux-gnu/jni:/usr/lib/aarch64-linux-gnu/jni:/usr/lib/jni"
"""Debian's directories for the native part of SQLite's driver; only Debian's own Java searches them."""

# Arrow's bounds and null checks are unnecessary on batches from pyarrow, and cost a tenth of the time.
_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"

_ARROW_BYTES = "16777216"
"""Bytes of messages that a worker decodes at once; Spark's default is larger or only counts messages."""

# At the first error, since Java would go on without memory and without an answer, and not even end with us.
_MEMORY = "-XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr"

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Settings for a local master only: a cluster could not reach the driver, and needs more partitions."""

_HIDDEN = r"(?i)secret|password|token|access[.]?key|\.user$"
"""Names whose values Spark hides wherever it shows its configuration: its own pattern, and user names."""

_REQUIRED = {
    "spark.sql.ansi.enabled": ("true", "what the database evaluates means the same only in ANSI mode"),
    "spark.api.mode": ("classic", "the decoder and the drivers are loaded into Spark's JVM"),
    "spark.submit.deployMode": ("client", "this process is the driver"),
}
"""Settings that have one value here, and why."""

_JARS, _PACKAGES = "spark.jars", "spark.jars.packages"
_JOINED = {
    _JARS: ",",
    _PACKAGES: ",",
    "spark.driver.extraJavaOptions": " ",
    "spark.executor.extraJavaOptions": " ",
    "spark.redaction.regex": "|",
}
"""Settings to which a user's value is added, with the separator."""

PYTHON = "spark.pyspark.python"
"""The workers' Python. PySpark itself reads it only from its environment."""
_MASTER = "spark.master"


def all_settings(master: str, *given: Mapping[str, str]) -> dict[str, str]:
    """Merge our settings for this master with a user's, which replace ours or are added to them."""
    drivers = [each.get(name, "") for each in given for name in (_JARS, _PACKAGES)]
    both = _ours(master, drivers)
    for each in given:
        for name, value in each.items():
            separator = _JOINED.get(name)
            before = both.get(name)
            both[name] = f"{before}{separator}{value}" if separator and before and value else value
    return both


def _ours(master: str, drivers: list[str]) -> dict[str, str]:
    options = f"-Djava.library.path={_NATIVE} {_ARROW}"
    logging = resource_path("log4j2.properties")
    return {
        **(_LOCAL if is_local(master) else {}),
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": _HIDDEN,
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": _ARROW_BYTES,
        _JARS: ",".join(map(str, jars_beside(drivers))),
        **({_PACKAGES: packages()} if packages() else {}),
        "spark.driver.extraJavaOptions": f"{options} {_MEMORY} -Dlog4j2.configurationFile={logging}",
        "spark.executor.extraJavaOptions": options,
    }


def is_local(master: str) -> bool:
    """Return whether this process and its JVM do all the work."""
    return master.partition("[")[0] == "local"


def check_settings(given: Mapping[str, str]) -> None:
    """Check a user's settings. No message contains a value, which may be a secret.

    :raises ConfigurationError: one is not Spark's, or contradicts what we need
    """
    for name, value in given.items():
        if not name.startswith("spark."):
            raise ConfigurationError(f"{name} is not a setting of Spark: their names begin with spark.")
        wanted, reason = _REQUIRED.get(name, ("", ""))
        if wanted and value.strip().lower() != wanted:
            raise ConfigurationError(f"{name} must be {wanted} here: {reason}; leave it out")
    if given.get("spark.remote"):
        raise ConfigurationError(
            "spark.remote names a Spark Connect server; name a cluster by its master, for example"
            " spark://host:7077"
        )


def chosen_master(master: str | None, given: Mapping[str, str]) -> str | None:
    """Return the master, which the settings may name too.

    :raises ConfigurationError: they name another one
    """
    named = given.get(_MASTER)
    if master and named and master != named:
        raise ConfigurationError(f"the master is {master}, but {_MASTER} is {named}; give one of them")
    return master or named


def check_running(running: Mapping[str, str], master: str | None, given: Mapping[str, str]) -> None:
    """Check that a running session already has the requested settings, since they can no longer be applied.

    :raises ConfigurationError: it has another master, or another value of a setting
    """
    wanted = {**given, **({_MASTER: master} if master else {})}
    for name, value in wanted.items():
        # Ours were added to the value of the session, and Python's are not its.
        same = value in running.get(name, "") if name in _JOINED else running.get(name) == value
        if not same and name != PYTHON:
            raise ConfigurationError(
                f"a Spark session is running with another {name}; stop it first, with spark.stop()"
            )
