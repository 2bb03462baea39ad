"""Fits to collections that are made up: what reports are likely to tell, from public facts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpstats.arguments import is_whole, safe_repr
from dpstats.data import as_table
from dpstats.data.passes import concatenate
from dpstats.errors import ArgumentError
from dpstats.families import get_family
from dpstats.frames import NotedFrame, WideFrame
from dpstats.local.collector import fit
from dpstats.local.compile import local_design
from dpstats.local.contributor import statistics
from dpstats.local.results import LocalResults
from dpstats.local.spec import Spec
from dpstats.local.transport import Total
from dpstats.models.population import KNOWN, USUAL, KnownColumns, made_up_rows
from dpstats.quiet import quiet

RECORDS, COLLECTIONS = 4096, 20
"""The sums are of so many records, times a factor; an error is the median of so many collections."""

MOST = 10**9
"""Sums of more reports need not fit into 64 bits."""

EFFECTS_NOTE = (
    "The effects are not known: standard errors of a fit may be half to one and a half times these. Public rows with "
    "the response (like=) are more exact."
)


def standard_errors(
    spec: Spec,
    n: int | None = None,
    *,
    typical: Mapping[str, Any] | None = None,
    like: Any = None,
    residual_sd: float | None = None,
) -> pd.DataFrame:
    """Errors that a fit of `n` reports is likely to show: a forecast from public facts and the known noise.

    The median of 20 collections of made-up records, which take a second or two. Nobody reports for it.

    Parameters
    ----------
    spec : Spec
    n : int, optional
        The number of reports, at least the promised one, which it is by default.
    typical, like : dict, DataFrame, optional
        A description of the records, as for ``plan.standard_errors``; `like` must be PUBLIC rows.
    residual_sd : float, optional
        Adds the sample's error, as in ``LocalResults.uncertainty``.

    Returns
    -------
    DataFrame
        In the user's units, for linear regression: std_error, inf where most of the collections have none, and
        identified, the share of those that have one. For logistic regression noise_sd, the standard deviation that
        the noise gives the coefficient as released. A note below the printed table says if effects are not known.

    Raises
    ------
    ArgumentError
        If an argument is outside its range, or for scheme="features".

    Examples
    --------
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=8.0, delta=1e-6, n=500)
    >>> dp.local.standard_errors(spec, 20_000, typical={"x": (0.5, 0.3)}).index.tolist()
    ['Intercept', 'x']
    """
    if not isinstance(spec, Spec):
        raise ArgumentError("spec must be a dp.local.Spec")
    count = spec.n if n is None else n
    if not is_whole(count) or not spec.n <= count <= MOST:
        raise ArgumentError(f"n must be a whole number of reports from {spec.n}, as promised, to {MOST:,}")
    if spec.scheme == "features":
        raise ArgumentError("standard_errors is for scheme='statistics': features have none")
    if spec.family == "binomial" and residual_sd is not None:
        raise ArgumentError(f"residual_sd is for linear regression, got {safe_repr(residual_sd)}")
    fits, names = list(made_up_fits(spec, int(count), typical, like)), list(spec.names)
    if spec.family == "binomial":
        return WideFrame({"noise_sd": np.median([one.tidy()["noise_sd"] for one in fits], axis=0)}, index=names)
    errors = np.array([one.uncertainty(residual_sd=residual_sd)["std_error"] for one in fits])
    shares = np.isfinite(errors).mean(axis=0)
    table = NotedFrame(pd.DataFrame({"std_error": np.median(errors, axis=0), "identified": shares}, index=names))
    known = KnownColumns.from_arguments(fits[0].design, typical, like)
    if not known.has_response(fits[0].design):
        table.attrs["note"] = EFFECTS_NOTE
    return table


def made_up_fits(spec: Spec, n: int, typical: object, like: object) -> Iterator[LocalResults]:
    """Fits to the sums of `n` reports: of records that are as the analyst says, and with the noise of so many."""
    design, family, p = local_design(spec.formula, spec.domain, spec.family), get_family(spec.family), len(spec.names)
    known = KnownColumns.from_arguments(design, typical, like)
    prior = KNOWN if known.covers(design, response=True) else USUAL
    units = np.repeat(spec.units, [p, spec.size - p])
    for seed in range(COLLECTIONS):
        random = np.random.default_rng(seed)
        table = pd.DataFrame(made_up_rows(design, family, known, RECORDS, prior, random))
        with quiet():  # a record that is not complete makes a null report
            block = concatenate(design.rows(as_table(table)).collect())
            means = statistics(block.exog, block.endog, spec).sum(axis=0) / RECORDS / units
        noise = spec.lattice.scale * np.sqrt(n) * random.standard_normal(spec.size)
        yield fit(Total(spec.hash, np.rint(n * means + noise).astype(np.int64), n), spec)
