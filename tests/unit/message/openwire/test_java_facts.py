"""The numbers that Spark's Java code repeats are those of the wire format."""

from __future__ import annotations

import re

from jdbcstore.message.openwire import wire_format as wire
from tests.support import ROOT


def test_the_types_in_java_are_those_of_the_wire_format() -> None:
    text = (ROOT / "jdbcstore" / "analytics" / "Headers.java").read_text(encoding="utf-8")
    constants = {name: int(value) for name, value in re.findall(r"final int (\w+) = (\d+);", text)}

    assert constants == {
        "FIRST_KIND": min(wire.BODY_TYPES),
        "FIRST_DESTINATION": min(wire.DESTINATION_KINDS),
        "MESSAGE_ID": wire.MESSAGE_ID,
        "PRODUCER_ID": wire.PRODUCER_ID,
    }
