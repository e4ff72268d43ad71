"""Rows of messages that cannot be decoded."""

from __future__ import annotations

from sqlalchemy import create_engine, text


def damage(url: str, sequence: int, find: bytes | None = None, replace: bytes = b"") -> None:
    """Spoil a row: all of it, or some bytes."""
    engine = create_engine(url)
    with engine.begin() as connection:
        where = {"id": sequence}
        blob = connection.execute(text("SELECT MSG FROM ACTIVEMQ_MSGS WHERE ID = :id"), where).scalar_one()
        if find is not None:
            assert blob.count(find) == 1
        spoilt = b"rubbish" if find is None else blob.replace(find, replace)
        connection.execute(
            text("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id"), {**where, "msg": spoilt}
        )
    engine.dispose()
