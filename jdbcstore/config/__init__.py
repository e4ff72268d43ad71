"""Configuration under ActiveMQ's property names, from TOML, XML, the environment and the caller."""

from jdbcstore.config.configuration import Configuration
from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.given import Kind, Note
from jdbcstore.config.load import load_config, load_file
from jdbcstore.config.store import StoreConfig
from jdbcstore.config.write import shown_options, to_toml

__all__ = [
    "Configuration",
    "DataSourceConfig",
    "Kind",
    "Note",
    "StoreConfig",
    "load_config",
    "load_file",
    "shown_options",
    "to_toml",
]
