"""Makes kombu know URLs of jdbcstore in every process of a test run; loaded by Python itself at its start."""

import kombu.transport

kombu.transport.TRANSPORT_ALIASES["jdbcstore"] = "jdbcstore.plugins.kombu:Transport"
