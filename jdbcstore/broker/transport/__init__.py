"""What connectors of all protocols share: listening, TLS, connections with their limits, logins and log."""
