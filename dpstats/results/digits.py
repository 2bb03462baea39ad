"""As many digits as the noise leaves of a number, and no more."""

from __future__ import annotations

import math

from dpstats.plan.tables import format_number

SHOWN = 2
"""Digits of a standard error; what it is the error of ends at the same place."""

MOST_PLACES = 6
"""Places behind the point; smaller numbers are written with an exponent."""


def to_the_noise(value: float, error: float) -> str:
    """`value` up to the place where its standard error has its second digit; three digits if there is no error.

    Parameters
    ----------
    value, error : float
        In the same units.
    """
    if value != value:
        return ""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return f"{value:.3g}"
    places = SHOWN - 1 - math.floor(math.log10(float(f"{error:.{SHOWN - 1}e}")))
    if -MOST_PLACES <= places <= MOST_PLACES:
        # Adding zero turns the -0 of a rounded small number into 0.
        text = f"{round(value, places) + 0.0:.{max(places, 0)}f}"
        return text if len(text) <= MOST_PLACES + SHOWN + 1 else format_number(value)
    if value == 0:
        return "0"
    digits = math.floor(math.log10(abs(value))) + places
    return f"{value:.{min(max(digits, 0), 3)}e}"
