"""The management of a broker while it serves: views, operations, and the audit log."""
