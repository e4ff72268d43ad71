"""Messages kept as Parquet, outside of the store: written once each, found by Spark, put back.

>>> from jdbcstore import analytics, load_config
>>> from jdbcstore.tools import archive
>>> window = archive.Window.of(older_than=30 * 86400)
>>> archive.write(analytics.session(), load_config(url="sqlite:///mq.db"), "archive", window)
"""

# Where Spark is not installed, this says so.
from jdbcstore.analytics import connect as _connect  # noqa: F401
from jdbcstore.tools.archive.comparing import Comparison, Difference, compare
from jdbcstore.tools.archive.history import ArchiveHistory
from jdbcstore.tools.archive.layout import Archive
from jdbcstore.tools.archive.removing import Removed, remove
from jdbcstore.tools.archive.restoring import Restored, restore
from jdbcstore.tools.archive.window import Window
from jdbcstore.tools.archive.writing import Written, write

__all__ = [
    "Archive",
    "ArchiveHistory",
    "Comparison",
    "Difference",
    "Removed",
    "Restored",
    "Window",
    "Written",
    "compare",
    "remove",
    "restore",
    "write",
]
