"""The message stores: in a SQL database, in memory, behind a journal, and routed by destination."""
