"""The broker as a process: start, mastership, health, security."""
