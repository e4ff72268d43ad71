"""Every statement the store runs: its own, and those that its user has put in their place."""

from jdbcstore.statements.builder import LOWEST, Builder
from jdbcstore.statements.checks import check_replacements
from jdbcstore.statements.given import GivenStatements
from jdbcstore.statements.own import LISTED, Statements
from jdbcstore.statements.queries import Lanes, Narrowed, Query, Statement
from jdbcstore.statements.replaced import ReplacedStatements
from jdbcstore.statements.rows import RowStatements, acknowledged

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
