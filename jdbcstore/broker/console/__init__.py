"""The console: web pages about a broker, or about a database that another process serves."""
