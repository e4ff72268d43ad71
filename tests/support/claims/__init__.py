"""Processes that claim messages."""
