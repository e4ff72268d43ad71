"""Benchmarks of the store, compared with the raw limits of the same database in the same run."""
