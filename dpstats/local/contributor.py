"""What a contributor runs: one record and the public specification in, one report out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ArgumentError, DataError
from dpstats.local.spec import Spec
from dpstats.privacy.randomness import RandomSource, SystemRandom, gaussian_integers

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_log = logging.getLogger("dpstats")
_warned: set[tuple[str, str]] = set()  # Specifications and fields that this process has warned of


@dataclass(frozen=True, eq=False)
class Report:
    """One contributor's report.

    Attributes
    ----------
    spec : str
        The hash of the specification it answers.
    values : ndarray of int64, shape (spec.size,)
        p, then the upper triangle of q q' row by row (scheme "statistics") or q (scheme "features"), in lattice units.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> dp.local.to_json(dp.local.Report("hash", np.array([1, -2])))
    '{"spec": "hash", "values": [1, -2]}'
    """

    spec: str
    values: Integers


def randomize(record: Mapping[str, Any] | None, spec: Spec) -> Report:
    """The report of one record: a function of the record, the specification and fresh noise, nothing else.

    Parameters
    ----------
    record : mapping or None
        Column name to cell. A cell outside its range is clipped; one that is missing, or of no declared level, makes
        the null report, whose statistics are zero and whose noise is like that of any other. So does None, which
        suits who takes part but would rather not say. A cell that is not missing and of no use, or is clipped, is
        logged as a warning, once a process for each field: the contributor alone must read this log.
    spec : Spec

    Returns
    -------
    Report
        With the guarantee `spec.local_guarantee`, by discrete Gaussian noise of OpenDP (docs/proofs/local). Send it
        once: two reports of one record add up.

    Raises
    ------
    ArgumentError
        If `spec` is not a Spec.
    DataError
        If `record` is no mapping or lacks a column of the formula.

    Examples
    --------
    >>> import dpstats as dp
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=5000)
    >>> dp.local.randomize({"x": 0.3, "y": 0.7}, spec).spec == spec.hash
    True
    """
    report = noisy_report(record, spec, SystemRandom())
    if record is not None:
        with contextlib.suppress(Exception):  # A dishonest specification may fail here too
            _warn_of_faults(record, spec)
    return report


def _warn_of_faults(record: Mapping[str, Any], spec: Spec) -> None:
    """Tell the contributor which fields are misspelt or clipped; no cell is quoted."""
    for name, fault in spec.program.faults(record).items():
        if (spec.hash, name) not in _warned:
            _warned.add((spec.hash, name))
            _log.warning("dpstats: the record's %r is %s", name, fault)


def noisy_report(record: Mapping[str, Any] | None, spec: Spec, random: RandomSource) -> Report:
    """As `randomize`, from a source of randomness of the caller's; no guarantee holds for a seeded one."""
    if not isinstance(spec, Spec):
        raise ArgumentError("spec must be a dp.local.Spec; Spec.from_json reads the collector's")
    values = on_lattice(_record_statistics(record, spec), spec)
    return Report(spec.hash, values + gaussian_integers(spec.size, spec.lattice.scale, random))


def _record_statistics(record: Mapping[str, Any] | None, spec: Spec) -> Array:
    """The statistics of a record, shape (spec.size,); zeros, the null report, if a dishonest specification fails.

    The failure may depend on the record, so neither an error nor a missing report may reveal it.
    """
    null = np.zeros(spec.size)
    if record is None:
        return null
    try:
        encoded = spec.program.encode(record)
        values = null if encoded is None else statistics(encoded[0][None], np.array([encoded[1]]), spec)[0]
    except DataError:  # by the names of the record's fields alone
        raise
    except Exception:
        return null
    return values if values.shape == null.shape and np.isfinite(values).all() else null


def statistics(exog: Array, endog: Array, spec: Spec) -> Array:
    """The statistics of records before rounding and noise, shape (r, spec.size).

    `exog`, shape (r, p), are rows in model units of norm at most 1, and `endog`, shape (r,), responses in model units,
    clipped to [-1, 1], or to 0 and 1.
    """
    if spec.family == "gaussian":
        q, p = exog, np.clip(endog, -1, 1)[:, None] * exog
    else:
        # Of log(1 + exp(eta)) - y eta, which is eta^2/8 - (y - 1/2) eta + log 2 to second order at zero.
        q, p = exog / 2, (np.clip(endog, 0, 1) - 0.5)[:, None] * exog
    if spec.scheme == "features":
        return np.hstack([p, q])
    rows, columns = np.triu_indices(exog.shape[1])
    # Off the diagonal times sqrt(2): the triangle's Euclidean norm is then the matrix's Frobenius norm.
    return np.hstack([p, q[:, rows] * q[:, columns] * np.where(rows == columns, 1.0, np.sqrt(2))])


def on_lattice(values: Array, spec: Spec) -> Integers:
    """Statistics, shape (..., spec.size), as the nearest integers in lattice units."""
    p = len(spec.names)
    gradient, rest = spec.units
    units = np.concatenate([np.full(p, gradient), np.full(spec.size - p, rest)])
    return np.rint(values / units).astype(np.int64)
