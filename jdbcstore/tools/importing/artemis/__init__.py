"""Apache Artemis: its journal in files, or the same records in tables of a database."""
