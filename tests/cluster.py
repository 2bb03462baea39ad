"""A cluster of two worker processes, in a process of its own: writes its address to a file, ends with its input."""

from __future__ import annotations

import sys
from pathlib import Path

from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        Path(sys.argv[1]).write_text(cluster.scheduler_address)
        sys.stdin.read()
