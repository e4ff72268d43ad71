"""JDBC drivers as a Python database driver and as SQLAlchemy dialects."""
