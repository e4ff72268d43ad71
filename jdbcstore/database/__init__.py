"""The database beneath a store: engine, sessions, tables, statements, vendors, migrations."""
