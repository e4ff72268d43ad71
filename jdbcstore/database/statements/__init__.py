"""Every statement the store runs: its own, and those that its user has put in their place."""

from jdbcstore.database.statements.builder import LOWEST, Builder
from jdbcstore.database.statements.checks import check_replacements
from jdbcstore.database.statements.given import GivenStatements
from jdbcstore.database.statements.own import LISTED, Statements
from jdbcstore.database.statements.queries import Lanes, Narrowed, Query, Statement
from jdbcstore.database.statements.replaced import ReplacedStatements
from jdbcstore.database.statements.rows import RowStatements, acknowledged

__all__ = [
    "LISTED",
    "LOWEST",
    "Builder",
    "GivenStatements",
    "Lanes",
    "Narrowed",
    "Query",
    "ReplacedStatements",
    "RowStatements",
    "Statement",
    "Statements",
    "acknowledged",
    "check_replacements",
]
