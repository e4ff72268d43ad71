"""``python -m jdbcstore``."""

import sys

from jdbcstore.cli import main

sys.exit(main())
