"""Messages, their headers, bodies, ids and destinations, and their form on the wire."""
