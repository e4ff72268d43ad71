"""Stores as rows: moving one to another database, and comparing two.

>>> from jdbcstore import Configuration
>>> from jdbcstore.tools import transfer
>>> from jdbcstore.config import DataSourceConfig
>>> old, new = (Configuration(data_source=DataSourceConfig(url=url)) for url in (old_url, new_url))
>>> assert transfer.copy(old, new).comparison.same
"""

from jdbcstore.tools.transfer.comparing import Comparison, Difference, Side, compare
from jdbcstore.tools.transfer.copying import Copied, copy
from jdbcstore.tools.transfer.end import End, MessageRow, Target

__all__ = ["Comparison", "Copied", "Difference", "End", "MessageRow", "Side", "Target", "compare", "copy"]
