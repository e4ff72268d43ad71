"""Any JDBC driver as a Python database driver, and as a SQLAlchemy dialect."""
