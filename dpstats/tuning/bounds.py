"""What a private choice may lose beyond the best candidate, with constants (docs/proofs/choice, sections 3 and 4)."""

from __future__ import annotations

import math

import pandas as pd

from dpstats.arguments import is_number, shown
from dpstats.errors import ArgumentError
from dpstats.frames import Printed
from dpstats.privacy.choice import Choice


def utility(choice: Choice, beta: float, n: float | None) -> pd.DataFrame:
    """Bounds that fail with probability at most `beta`.

    Parameters
    ----------
    choice : Choice
    beta : float
    n : float or None
        A public number of rows, or a guess, for the bounds on new rows.

    Returns
    -------
    DataFrame
        bound; rows, the loss beyond that of the best candidate summed over the rows chosen from; per_row, the same
        divided by n, or the expected loss of a new row beyond that of the best candidate; holds, "proved" or "printed".

    Raises
    ------
    ArgumentError
        If `beta` or `n` is not usable.
    """
    ours = choice.bound(beta)
    if n is not None and not (is_number(n) and n > 0):
        raise ArgumentError(f"n must be a positive number of rows, got {shown(n)}")
    size, rest = choice.candidates, math.nan
    lines = [
        ("these rows, permute-and-flip (used)", ours, "proved"),
        ("these rows, exponential mechanism", exponential_bound(choice, beta), "proved"),
        ("these rows, CMS 2011, Theorem 9", 2 * math.log(size / beta) / choice.eps, "printed"),
    ]
    found = [(name, rows, rest if n is None else rows / n, holds) for name, rows, holds in lines]
    if n is not None:
        wide = 1 if choice.monotone else 2
        sampling = wide * math.sqrt(2 * math.log(2 * (size - 1) / beta) / n)
        found.append(("new rows", rest, sampling + choice.bound(beta / 2) / n, "proved"))
        if choice.monotone:
            found.append(("new rows, if one never errs", rest, realizable_bound(choice, beta, n), "proved"))
        printed = math.sqrt(math.log(size / beta) / n) + math.log(size / beta) / (n * choice.eps)
        found.append(("new rows, lecture, no constants", rest, printed, "printed"))
    return Printed(found, columns=["bound", "rows", "per_row", "holds"])


def exponential_bound(choice: Choice, beta: float) -> float:
    """As `Choice.bound`, of the exponential mechanism at the same eps: weights exp(-loss / scale)."""
    return max(0.0, choice.scale * math.log((choice.candidates - 1) * (1 - beta) / beta))


def realizable_bound(choice: Choice, beta: float, n: float) -> float:
    """The expected loss of a new row under the chosen candidate if some candidate never loses anything."""
    return max(0.0, math.log((choice.candidates - 1) / (2 * beta))) / (n * -math.expm1(-1 / choice.scale))
