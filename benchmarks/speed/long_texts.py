"""What a column of long texts in a Parquet file takes of memory: ``python -m benchmarks.speed.long_texts``.

480,000 rows of a text of 1,000 bytes, all of them different: the dictionary that Parquet keeps for the column in each
row group is the text itself. Fits with `memory=1e8` in fresh processes; shown is the peak of the resident set.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS, LENGTH = 480_000, 1000
LAYOUTS = {"one row group": ROWS, "row groups of 65,536": 65_536, "row groups of 8,192": 8_192}
DOMAIN = {"y": (0, 1), "x": (0, 1), "text": ["a", "b"]}


def write(path: Path, group: int) -> None:
    """The file, in row groups of so many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    texts = [f"{number:0{LENGTH}}" for number in range(ROWS)]
    table = pa.table({"y": random.random(ROWS), "x": random.random(ROWS), "text": texts})
    pq.write_table(table, path, use_dictionary=["text"], dictionary_pagesize_limit=2**30, row_group_size=group)


def fit(path: str, formula: str) -> None:
    """Fit, and print the process's peak in bytes."""
    import dpstats as dp

    dp.glm(formula, path, 1.0, domain=DOMAIN, memory=1e8)
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> int:
    """One line a layout: the peak without the texts, and with them."""
    with tempfile.TemporaryDirectory() as folder:
        for layout, group in LAYOUTS.items():
            path = Path(folder) / "texts.parquet"
            # The writer's own peak would count for whoever it starts.
            subprocess.run([sys.executable, "-m", __spec__.name, "write", path, str(group)], check=True)
            peaks = [
                subprocess.run(
                    [sys.executable, "-m", __spec__.name, "fit", path, formula], check=True, stdout=subprocess.PIPE
                )
                for formula in ("y ~ x", "y ~ x + text")
            ]
            without, texts = (int(peak.stdout) / 1e9 for peak in peaks)
            print(f"{layout}: {without:.2f} GB without the texts, {texts:.2f} GB with them")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["fit"]:
        fit(*sys.argv[2:])
    else:
        sys.exit(main())
