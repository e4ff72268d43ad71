"""Clocks, futures, retries, durable files and file locks, used by every layer."""
