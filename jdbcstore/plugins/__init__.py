"""Plug-ins that use a store in brokers of other projects."""
