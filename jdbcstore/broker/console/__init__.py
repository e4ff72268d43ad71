"""The console: pages of a broker, or of a database that another process serves, for a browser."""
