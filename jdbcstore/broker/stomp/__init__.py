"""STOMP 1.0, 1.1 and 1.2: a ``session`` parses ``frames``, calls the broker, and writes ``messages``."""
