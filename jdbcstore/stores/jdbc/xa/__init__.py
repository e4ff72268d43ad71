"""XA transactions on ActiveMQ's tables: prepared in their XID columns, and found there again."""

from jdbcstore.stores.jdbc.xa.resource import JdbcXAResource
from jdbcstore.stores.jdbc.xa.taking_over import take_over

__all__ = ["JdbcXAResource", "take_over"]
