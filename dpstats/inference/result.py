"""A table of coefficients with errors, in the user's units (docs/proofs/inference, 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.inference.contrasts import Contrasts
from dpstats.inference.estimates import Estimates
from dpstats.inference.joint import JointTest, standardised, wald_test

Float = NDArray[np.float64]


class CombinationTests(NamedTuple):
    """Tests of k linear combinations; arrays of shape (k,), intervals of shape (k, 2).

    ``statistics`` are (effect - null) / se, 0 where se is infinite; p-values do not derive from them but from the law.
    """

    effect: Float
    se: Float
    statistics: Float
    pvalues: Float
    conf_int: Float


@dataclass(frozen=True, eq=False)
class Inference:
    """Coefficients A theta + shift with their errors.

    Attributes
    ----------
    estimates : Estimates
        In model units.
    transform : ndarray, shape (q, p), optional
        A, public; the identity by default, for model units.
    shift : ndarray, shape (q,), optional
        0 by default.

    Raises
    ------
    ArgumentError
        If shapes disagree or a value is not finite.
    """

    estimates: Estimates
    transform: Float | None = None
    shift: Float | None = None

    def __post_init__(self) -> None:
        rows = self.estimates.check_rows(self.map)
        if np.shape(self.offset) != (len(rows),) or not np.all(np.isfinite(self.offset)):
            raise ArgumentError("shift must be finite and have one entry for each row of transform")

    @property
    def map(self) -> Float:
        """A, shape (q, p)."""
        return np.eye(self.estimates.size) if self.transform is None else np.asarray(self.transform, dtype=np.float64)

    @property
    def offset(self) -> Float:
        """The shift, shape (q,)."""
        return np.zeros(len(self.map)) if self.shift is None else np.asarray(self.shift, dtype=np.float64)

    @cached_property
    def contrasts(self) -> Contrasts:
        """The rows of A as combinations of the coefficients in model units."""
        return self.estimates.contrasts(self.map)

    @cached_property
    def coef(self) -> Float:
        """Debiased coefficients, shape (q,); released ones where not identified."""
        return self.contrasts.estimates + self.offset

    @property
    def se(self) -> Float:
        """Half-widths of 95 % intervals over 1.96, shape (q,); infinite where unbounded."""
        return self.contrasts.se

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the budget identifies the coefficient, shape (q,)."""
        return self.contrasts.identified

    @property
    def shares(self) -> Float:
        """Shares of se^2: sampling, noise, information; shape (q, 3)."""
        return self.contrasts.shares

    @cached_property
    def pvalues(self) -> Float:
        """p-values of coefficients of 0, shape (q,)."""
        return self.contrasts.pvalues(-self.offset)

    @property
    def tvalues(self) -> Float:
        """coef / se, shape (q,); 0 where se is infinite."""
        return self.coef / self.se

    def conf_int(self, alpha: float = 0.05) -> Float:
        """Intervals of coverage 1 - alpha, shape (q, 2)."""
        return self.contrasts.conf_int(alpha) + self.offset[:, None]

    def cov_params(self) -> Float:
        """Covariance of the coefficients' errors, shape (q, q).

        On the diagonal A, the variance as if the information were exact: its root is a little below `se`, which pays
        for noise in the information and for tails. For coefficients that are not identified infinite there, and NaN
        elsewhere. `t_test` and `wald_test` are better for combinations than what this matrix gives.
        """
        size, where = len(self.map), np.flatnonzero(self.identified)
        covariance = np.full((size, size), np.nan)
        np.fill_diagonal(covariance, np.inf)
        if len(where):
            roots = np.sqrt(self.contrasts.variances[where])
            law = standardised(self.estimates, self.map[where])
            covariance[np.ix_(where, where)] = law.correlation * np.outer(roots, roots)
        return covariance

    def t_test(self, rows: Float, null: Float | float = 0.0, alpha: float = 0.05) -> CombinationTests:
        """Test each combination r'coef = null for rows r, shape (k, q)."""
        inner, moved = self._model_rows(rows)
        found = self.estimates.contrasts(inner)
        null = np.broadcast_to(np.asarray(null, dtype=np.float64), (len(inner),))
        effect = found.estimates + moved
        statistics, interval = (effect - null) / found.se, found.conf_int(alpha) + moved[:, None]
        return CombinationTests(effect, found.se, statistics, found.pvalues(null - moved), interval)

    def wald_test(self, rows: Float, null: Float | float = 0.0) -> JointTest:
        """Test all combinations r'coef = null for rows r, shape (k, q), at once."""
        inner, moved = self._model_rows(rows)
        return wald_test(self.estimates, inner, np.asarray(null, dtype=np.float64) - moved)

    def _model_rows(self, rows: Float) -> tuple[Float, Float]:
        """r'A, shape (k, p), and r'shift."""
        rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != len(self.map) or not np.all(np.isfinite(rows)):
            raise ArgumentError(f"rows must be finite and have {len(self.map)} columns")
        return rows @ self.map, rows @ self.offset
