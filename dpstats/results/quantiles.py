"""Several quantiles of one response: coefficients by quantile, and predictions that do not cross."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_flag, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families import Quantile
from dpstats.frames import WideFrame
from dpstats.plan import Plan
from dpstats.plan.row_notes import counts_note, faults_line
from dpstats.plots.by_group import quantiles as draw_quantiles
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.glm_results import GLMResults
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.stored import Released, guarantee_sentence, marked_title
from dpstats.results.summary import coefficient_table
from dpstats.results.summary_header import rows_text
from dpstats.results.summary_notes import wording_notes
from dpstats.summaries import Summary, format_number, full_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALONE = "A table of coef alone has coefficients as released: shrunk towards zero, with privacy noise."
BLANK = (
    "A blank line is not identified at this budget: more rows or eps, narrower ranges, fewer or less collinear columns "
    "and merging rare levels help."
)


@dataclass(frozen=True, eq=False)
class QuantileResults(Released):
    """Released fits of several quantiles of one response.

    Attributes
    ----------
    fits : dict
        A GLMResults by quantile, in rising order; ``results[0.5]`` is one of them.
    guarantee : Guarantee
        For all of them together.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 1, 20_000)
    >>> rows = {"x": x, "y": x + rng.normal(0, 1 + x)}
    >>> domain = {"x": (0, 1), "y": (-10, 10)}
    >>> fits = dp.quantreg("y ~ x", rows, eps=3.0, q=[0.1, 0.5, 0.9], domain=domain)
    >>> fits
    <QuantileResults: y ~ x, q = 0.1, 0.5, 0.9; eps=3, add_remove, certified>
    >>> fits.params.shape
    (2, 3)
    >>> fits.conf_int().columns.tolist()
    ['lower', 'upper']
    >>> fits.tidy().shape[0], fits.glance().shape[0]
    (6, 3)
    >>> fits.plot("x").get_xlabel()  # with the extra "plots"
    'quantile'
    >>> "0.9 quantile" in fits.summary().as_text()
    True
    """

    fits: Mapping[float, GLMResults]
    guarantee: Guarantee

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles, rising."""
        return tuple(self.fits)

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients as released, in the user's units: a row for each column of the design, a column a quantile."""
        return WideFrame({q: fit.params for q, fit in self.fits.items()})

    @property
    def formula(self) -> str | None:
        """The formula."""
        return next(iter(self.fits.values())).formula

    def __getitem__(self, q: float) -> GLMResults:
        if q not in self.fits:
            raise ArgumentError(f"q must be one of the quantiles {list(self.fits)}, got {safe_repr(q)}")
        return self.fits[q]

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of the coefficients, by quantile and term; those of fits without errors are left out."""
        known = {q: fit.conf_int(alpha) for q, fit in self.fits.items() if fit.has_errors}
        if not known:
            return pd.DataFrame(columns=["lower", "upper"])
        table = pd.concat(known, names=["quantile", "term"])
        return WideFrame(table.set_axis(["lower", "upper"], axis=1))

    def tidy(self) -> pd.DataFrame:
        """One row per quantile and coefficient, with the columns of `GLMResults.tidy`."""
        return self._stacked({q: fit.tidy() for q, fit in self.fits.items()})

    def glance(self) -> pd.DataFrame:
        """One row of facts per quantile; eps and delta are its part of the budget."""
        return self._stacked({q: fit.glance() for q, fit in self.fits.items()})

    def predict(self, newdata: Any, *, rearranged: bool = True, offset: Any = None) -> pd.DataFrame:
        """Quantiles of the response for new rows, which do not cross; post-processing of the released coefficients.

        Parameters
        ----------
        newdata : DataFrame or another table
        rearranged : bool
            Whether the quantiles of each row are sorted. Separate fits may cross; sorted ones never do, and together
            they are no farther from the true quantiles (Chernozhukov, Fernandez-Val and Galichon 2010). With False they
            are as the coefficients say.
        offset : float or array_like, optional
            As for `GLMResults.predict`.

        Returns
        -------
        DataFrame
            Indexed as `newdata`, a column a quantile.

        Examples
        --------
        >>> predicted = fits.predict({"x": [0.1, 0.9]})
        >>> bool((predicted[0.1] <= predicted[0.5]).all() and (predicted[0.5] <= predicted[0.9]).all())
        True
        """
        predicted: dict[float, Any] = {}
        for q, fit in self.fits.items():  # of cells one warning is enough
            rows = fit._model_rows(newdata, offset, warns=not predicted, coefficients=fit.scaled_params)
            predicted[q] = fit._predicted(rows)
        each = pd.DataFrame(predicted)
        if not check_flag("rearranged", rearranged):
            return each
        return pd.DataFrame(np.sort(each.to_numpy(), axis=1), index=each.index, columns=each.columns)

    def plot(self, term: str | None = None, **arguments: Any) -> Axes:
        """Draw a coefficient by quantile, with its intervals: the first beside the intercept, or `term`."""
        return draw_quantiles(self, term, **arguments)

    def summary(self) -> Summary:
        """A table of coefficients a quantile; as_text, as_html, as_latex and as_markdown."""
        tables: list[SimpleTable] = []
        fits = list(self.fits.values())
        # One of them has counted the rows of all.
        first = next((fit for fit in fits if rows_text(fit) != "private"), fits[0])
        kind = f"Private quantile regression\nrows: {rows_text(first)}"
        for fit in fits:
            target = f"{fit.family.target[0].upper()}{fit.family.target[1:]} of {fit.plan.design.response_name}"
            title = target if tables else marked_title(f"{kind}\n{target}", self.guarantee)
            tables.append(coefficient_table(fit, title=title))
        shown = [fit for fit in fits if shows_errors(fit)]
        widths = ", ".join(f"{fit.family.h:,.3g}" for fit in self.fits.values() if isinstance(fit.family, Quantile))
        notes = [
            guarantee_sentence(self.guarantee, "All quantiles together are"),
            *counts_note(first.plan),
            *faults_line(first.plan),
            *([BLANK] if any(np.isinf(fit.bse).any() for fit in shown) else []),
            *([] if len(shown) == len(fits) else [ALONE]),
            *(wording_notes(shown[0]) if shown else []),
            f"The corners of the losses are rounded over widths of {widths} (h, in units of the response).",
            "Quantiles of separate fits may cross; predict sorts those of each row. results[q].summary() has the notes "
            "on one quantile.",
        ]
        return Summary(tables, notes)

    def to_dict(self) -> dict[str, Any]:
        return {"guarantee": self.guarantee.to_dict(), "fits": [fit.to_dict() for fit in self.fits.values()]}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        fits = [GLMResults.from_dict(one) for one in facts["fits"]]
        return cls({_quantile(fit.plan): fit for fit in fits}, Guarantee(**facts["guarantee"]))

    def __repr__(self) -> str:
        listed = ", ".join(f"{q:.4g}" for q in self.fits)
        return f"<QuantileResults: {self.formula}, q = {listed}; {self.guarantee}>"

    def _stacked(self, tables: Mapping[float, pd.DataFrame]) -> pd.DataFrame:
        """The tables below one another, with the quantile as the first column."""
        parts = [pd.DataFrame(table).assign(quantile=q) for q, table in tables.items()]
        stacked = pd.concat(parts, ignore_index=True)
        return WideFrame(stacked[["quantile", *(name for name in stacked if name != "quantile")]])


def _quantile(plan: Plan) -> float:
    assert isinstance(plan.family, Quantile)
    return plan.family.q


def budget_summary(plans: Mapping[float, Plan], guarantee: Guarantee) -> Summary:
    """What each of several quantiles costs, the noise in its objective, and the width of its corner."""
    rows = []
    for q, plan in plans.items():
        assert isinstance(plan.family, Quantile)
        width = plan.family.h * plan.design.response_scaling()[1] if plan.family.h else float("nan")
        shown = (plan.eps, plan.delta, plan.noise.scale, float(np.min(plan.curvature)), width)
        rows.append((f"q = {q:.4g}", [format_number(value) for value in shown]))
    rows.append(("total", [format_number(guarantee.eps), format_number(guarantee.delta), "", "", ""]))
    table = full_width(
        ["eps", "delta", "noise scale", "curvature", "width h"], rows, [11, 11, 13, 13, 13], title="Several quantiles"
    )
    notes = [
        guarantee_sentence(guarantee, "The release will be"),
        "The quantile nearest to the median pays for what all share: the number of rows, ranges, and where the "
        "response lies. Until that is bought widths are of the whole range.",
    ]
    return Summary([table], notes)
