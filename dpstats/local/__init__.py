"""Input perturbation: contributors randomize their own records, a collector fits to the sum (docs/proofs/local).

What contributors run needs numpy, scipy, patsy and OpenDP, but neither pandas nor statsmodels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpstats.local.contributor import Report, randomize
from dpstats.local.spec import Spec
from dpstats.local.transport import Total, from_json, read, to_json, total, write

if TYPE_CHECKING:
    from dpstats.local.collector import fit
    from dpstats.local.forecast import standard_errors
    from dpstats.local.results import LocalResults

__all__ = [
    "LocalResults",
    "Report",
    "Spec",
    "Total",
    "fit",
    "from_json",
    "randomize",
    "read",
    "standard_errors",
    "to_json",
    "total",
    "write",
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    """The collector's part on first use: it needs pandas and statsmodels, which contributors do without."""
    if name == "fit":
        from dpstats.local.collector import fit

        return fit
    if name == "standard_errors":
        from dpstats.local.forecast import standard_errors

        return standard_errors
    if name == "LocalResults":
        from dpstats.local.results import LocalResults

        return LocalResults
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
