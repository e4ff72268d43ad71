"""The statements of the database store, compiled for one vendor. Nothing here runs one."""
