"""``python -m jdbcstore.util.core`` compiles the core in place."""

from jdbcstore.util.core.build import main

main()
