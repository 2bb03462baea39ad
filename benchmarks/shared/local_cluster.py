"""A cluster of worker processes on this machine, in a process of its own whose output is kept in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def local_cluster(workers: int = 2) -> Iterator[tuple[str, Path]]:
    """The scheduler's address, and the file of all that the processes write."""
    with tempfile.TemporaryDirectory() as folder:
        address, said = Path(folder, "address"), Path(folder, "said")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with said.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.shared.local_cluster", str(workers), address],
                **{"stdin": subprocess.PIPE, "stdout": output, "stderr": output, "cwd": folder, "env": environment},
            )
            try:
                while not (address.exists() and address.read_text()):
                    if process.poll() is not None:
                        raise RuntimeError("the cluster did not start")
                    time.sleep(0.1)
                yield address.read_text(), said
            except BaseException:
                print(said.read_text()[-4000:], file=sys.stderr)
                raise
            finally:
                process.communicate(timeout=120)


def serve(workers: int, address: Path) -> None:
    """Run a cluster until the standard input ends."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        # A nanny whose worker dies while it starts gives up; another one then takes its place.
        cluster.adapt(minimum=workers, maximum=workers, interval="2s")
        address.write_text(cluster.scheduler_address)
        sys.stdin.read()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
