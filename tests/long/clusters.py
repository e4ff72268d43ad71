"""``python -m tests.long.clusters --faults 100 --seed N``: the campaign on clusters, whose nodes fail, too.

Galera, PostgreSQL under Patroni, and MySQL Group Replication. Its options are those of
``tests.long.campaign``.
"""

from __future__ import annotations

import sys

from tests.long.campaign.__main__ import main
from tests.support.campaign.clusters import CLUSTERS

if __name__ == "__main__":
    chosen = [] if "--database" in sys.argv else [word for name in CLUSTERS for word in ("--database", name)]
    main([*chosen, *sys.argv[1:]])
