"""The common part of all connectors: listening, TLS, connections with their limits, logins and log."""
