"""What a backend of Django's tasks makes of Django's settings and priorities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from jdbcstore.plugins.django.backend import level
from jdbcstore.plugins.django.connecting import url_of

LOGIN: dict[str, Any] = {"USER": "ada", "PASSWORD": "p@ss/word", "HOST": "db", "PORT": 5}


def connection(vendor: str, *, mariadb: bool = False, memory: bool = False, **settings: Any) -> Any:
    every = {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}, **settings}
    return SimpleNamespace(
        vendor=vendor,
        alias="default",
        settings_dict=every,
        mysql_is_mariadb=mariadb,
        is_in_memory_db=lambda: memory,
    )


@pytest.mark.parametrize(
    ("of", "url"),
    [
        (connection("sqlite", NAME="/srv/shop.db"), "sqlite:////srv/shop.db"),
        (connection("postgresql"), "postgresql+psycopg:///shop"),
        (connection("postgresql", **LOGIN), "postgresql+psycopg://ada:p%40ss%2Fword@db:5/shop"),
        (
            connection("postgresql", USER="ada", HOST="/run/pg", PORT="5"),
            "postgresql+psycopg://ada@/shop?host=%2Frun%2Fpg&port=5",
        ),
        (connection("mysql", HOST="::1", OPTIONS={"charset": "utf8mb4"}), "mysql+pymysql://[::1]/shop"),
        (
            connection("mysql", mariadb=True, USER="ada", HOST="/run/sock", PORT="5"),
            "mariadb+pymysql://ada@/shop?unix_socket=%2Frun%2Fsock",
        ),
    ],
)
def test_the_url_of_a_database(of: Any, url: str) -> None:
    assert url_of(of) == url


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (
            connection("postgresql", OPTIONS={"sslmode": "require", "pool": True}),
            r"\(sslmode\).*OPTIONS\['url'\]",
        ),
        (connection("sqlite", memory=True), "in memory.*use a file"),
        (connection("oracle"), "is oracle"),
    ],
)
def test_a_database_that_a_url_cannot_say(of: Any, reason: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=reason):
        url_of(of)


def test_priorities_keep_their_order() -> None:
    levels = [level(priority) for priority in range(-100, 101)]
    assert levels == sorted(levels)
    assert (levels[0], level(-1), level(0), level(1), levels[-1]) == (0, 3, 4, 5, 9)
