"""A released model of ordered levels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data import Table
from dpstats.data.table import with_level
from dpstats.domain import Scalar
from dpstats.errors import ArgumentError
from dpstats.families.ordinal import score_ratio
from dpstats.formula.design import DesignSpec
from dpstats.formula.reader import check_columns
from dpstats.inference import ModelSpread
from dpstats.mechanisms.design import PublicDesign
from dpstats.quiet import quiet
from dpstats.results.glm_results import GLMResults
from dpstats.results.multinomial import NOT_RELEASED, LevelPredictions

Vector = NDArray[np.float64]

CUT = "cut_point"  # the column that tells which cut-point a piece of a row is about


def level_names(design: DesignSpec) -> list[str]:
    """What the K - 1 cut-points between the levels of the response are called."""
    levels = design.response.levels
    assert levels is not None
    return [f"{low}|{high}" for low, high in pairwise(levels)]


def cut_points(design: PublicDesign, scaled_params: Vector) -> Vector:
    """The cut-points as released, by coefficients in model units, shape (K - 1,)."""
    assert isinstance(design, DesignSpec)
    matrix, shift = design.back_transform()
    return np.asarray((matrix @ scaled_params + shift)[: len(design.cut_points)])


def implied_spread(design: PublicDesign, scaled_params: Vector) -> ModelSpread:
    """The score's covariance that a model implies: of ordered levels that of the cut-points as released."""
    points = isinstance(design, DesignSpec) and len(design.cut_points) > 0
    return ModelSpread(score_ratio(cut_points(design, scaled_params))) if points else ModelSpread()


class OrdinalResults(LevelPredictions, GLMResults):
    """A released model of ordered levels: odds ratios of a higher level, their errors, and probabilities of the levels.

    Everything that `GLMResults` has of coefficients: params, bse, conf_int, summary, tidy, t_test, save and load.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 5000)}
    >>> rows["y"] = np.searchsorted([-1.0, 1.0], 2 * rows["x"] - 1 + rng.logistic(size=5000))
    >>> fit = dp.ordinal("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": [0, 1, 2]}, seed=1)
    >>> fit.params.index.tolist(), fit.levels
    (['0|1', '1|2', 'x'], (0, 1, 2))
    >>> shares = fit.predict({"x": [0.2, None]})
    >>> shares.columns.tolist(), shares.sum(axis=1, skipna=False).round(6).tolist()
    ([0, 1, 2], [1.0, nan])
    >>> bool(1 < fit.tidy(exponentiate=True).set_index("term").loc["x", "conf_low"])
    True
    """

    not_released: ClassVar[Mapping[str, str]] = {**GLMResults.not_released, **NOT_RELEASED}
    instead: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("comparisons", "predictions"), "predict(newdata) has probabilities"),
        "get_margeff": "tidy(exponentiate=True) has odds ratios",
    }

    @property
    def levels(self) -> tuple[Scalar, ...]:
        """The levels of the response, in their order."""
        assert isinstance(self.plan.design, DesignSpec)
        levels = self.plan.design.response.levels
        assert levels is not None
        return levels

    @property
    def _levels(self) -> tuple[Scalar, ...]:
        return self.levels

    def _level_shares(self, newdata: Table) -> Vector:
        design = self.plan.design
        assert isinstance(design, DesignSpec)
        columns = [name for name in design.parsed.exog_columns if name != CUT]
        check_columns(newdata, design.domain, columns)
        with quiet():
            parts = [self._shares(design, part) for part in newdata.batches(columns).collect()]
        return np.concatenate([np.empty((0, len(self.levels))), *parts])

    def _shares(self, design: DesignSpec, table: Table) -> Vector:
        """Probabilities of the levels, shape (rows, K); NaN where a row cannot be encoded."""
        names = level_names(design)
        exog, known, _ = design.predicting(with_level(table, CUT, names, 0), offset=False)
        points = cut_points(design, self.scaled_params)
        terms = np.where(known, exog @ self.scaled_params + points[0], np.nan)
        # Noise may reverse cut-points; sorting them brings them no farther from any ordered ones.
        above = terms[:, None] - np.sort(points)
        chances = np.hstack([np.ones((len(above), 1)), self.plan.family.mean(above), np.zeros((len(above), 1))])
        return np.where(known[:, None], -np.diff(chances, axis=1), np.nan)

    def get_prediction(self, *_: Any, **__: Any) -> Any:
        """Not offered; see `predict`."""
        raise ArgumentError("get_prediction is not offered for ordered levels: fit.predict(newdata) has probabilities")

    def comparisons(self, *_: Any, **__: Any) -> Any:
        """Not offered; see `predict`."""
        raise ArgumentError("averages are not offered for ordered levels: fit.predict(newdata) has probabilities")

    predictions = comparisons

    def get_margeff(self, *_: Any, **__: Any) -> Any:
        """Not offered; odds ratios are ``fit.tidy(exponentiate=True)``."""
        raise ArgumentError(
            "get_margeff is not offered for ordered levels: fit.tidy(exponentiate=True) has odds ratios"
        )

    def __repr__(self) -> str:
        return f"<OrdinalResults: {self.plan.description}>"
