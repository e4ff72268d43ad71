"""Configuration files of ActiveMQ Classic and Artemis."""

from jdbcstore.config.xml.read import read_plugin_users, read_xml

__all__ = ["read_plugin_users", "read_xml"]
