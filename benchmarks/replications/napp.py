"""The figures of the NAPP-ERM paper as tables.

``python -m benchmarks.replications.napp selection`` or any other study, or ``all``.

Writes one compressed table a study into benchmarks/replications/napp_results, from which docs/benchmarks_napp draws
every figure. Repeats as committed are the defaults below; the paper has 500.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.replications import napp_adult, napp_share, napp_studies
from benchmarks.replications.napp_settings import settings

RESULTS = Path(__file__).parent / "napp_results"
ENDS = (0.4, 1.0)


def selection(repeats: int) -> pd.DataFrame:
    """Figs. 4, 5 and 7: all of Table 4; certified modes, VS+, the fit without privacy."""
    chosen = napp_studies.CERTIFIED | napp_studies.MAIN_PAPER | napp_studies.REFERENCE
    return napp_studies.simulate(settings(), chosen, repeats)


def printed(repeats: int) -> pd.DataFrame:
    """Figs. 4 and 5 with the printed gamma shape, which differs at delta = 0 only."""
    return napp_studies.simulate(settings(deltas=(0.0,)), napp_studies.PRINTED, repeats)


def others(repeats: int) -> pd.DataFrame:
    """Figs. 4, 5 and 7: the paper's other modes at the least and the greatest budget."""
    return napp_studies.simulate(settings(ENDS), napp_studies.OTHER_PAPER, repeats)


def recycling(repeats: int) -> pd.DataFrame:
    """Fig. 8: linear regression with and without recycled budget."""
    chosen = [setting for setting in settings(ENDS, (0.0,)) if setting.model == "linear"]
    return napp_studies.simulate(chosen, napp_studies.RECYCLING, repeats)


STUDIES: dict[str, tuple[Callable[[int], pd.DataFrame], int]] = {
    "moor": (napp_studies.moor_distance, 2),
    "recycling": (recycling, 8),
    "selection": (selection, 20),
    "printed": (printed, 12),
    "others": (others, 4),
    "adult": (napp_adult.misclassified, 2),
    "share": (napp_share.shares, 16),
}


def read(study: str) -> pd.DataFrame:
    """The committed table of a study."""
    return pd.read_csv(RESULTS / f"{study}.csv.gz")


def main() -> None:
    """Run the studies named and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=[*STUDIES, "all"])
    parser.add_argument("--repeats", type=int)
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for name, (study, repeats) in STUDIES.items():
        if arguments.study in (name, "all"):
            table = study(arguments.repeats or repeats)
            # No time stamp inside: the same figures make the same file.
            table.to_csv(
                RESULTS / f"{name}.csv.gz", index=False, float_format="%.4g", compression={"method": "gzip", "mtime": 0}
            )
            print(f"{name}: {len(table)} lines", flush=True)


if __name__ == "__main__":
    main()
