"""What was released of a linear model with one absorbed factor: tables, errors, files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag
from dpstats.cached import cached_property
from dpstats.data import as_table
from dpstats.errors import NotReleasedError
from dpstats.families import Family, Gaussian
from dpstats.frames import WideFrame
from dpstats.mechanisms.absorbed import ReleasedWithin, WithinPlan
from dpstats.mechanisms.design import PublicDesign
from dpstats.mechanisms.stage import NoiseFacts
from dpstats.plan.row_counts import RowCounts, about_rows, rows_of_nobody
from dpstats.plan.row_notes import counts_note, faults_line
from dpstats.plan.tables import facts_table
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.quiet import quiet
from dpstats.results.contrasts import inference_table
from dpstats.results.inference_mixin import InferenceMixin
from dpstats.results.standard_errors import ReleasedErrors
from dpstats.results.stored import OF_LINES, Released, guarantee_sentence, marked_title
from dpstats.summaries import Summary, paired_facts, shorten
from dpstats.wording import argument, joined, sentence

Vector = NDArray[np.float64]

SEEN_SDS, LIKELY_SDS = 3, 2
"""Groups are seen from so many standard deviations of their count's noise on; there are hardly so many more."""

ENOUGH_SDS = 4
"""From about so many on their number surely stands out, and nearly all intervals are bounded if columns fill their
ranges (``python -m benchmarks.models.absorbed few``)."""

MOST_NOTES = 3  # on the coefficients in a short summary, the most important first; `notes` has all

INFLATED, ALIKE = 2.0, 0.9
"""A column hardly varies apart from others if they make its variance so many times as large; from one other if the
correlation with it is so large.

Such a column varies within groups: of 10,000 columns without an interval that never did none was inflated so much.
"""

ENOUGH_GROUPS = 50
"""Clustered errors of so many groups are hardly too small."""


def formula_of(plan: WithinPlan) -> str:
    """The formula as it was given."""
    name = plan.absorbed if plan.absorbed.isidentifier() else f"Q({plan.absorbed!r})"
    return f"{plan.design.formula} | {name}"


def budget_of(plan: WithinPlan) -> pd.DataFrame:
    """What each part of the budget buys."""
    return WideFrame(pd.DataFrame(plan.budget, columns=["purchase", "eps", "delta", "buys"]).set_index("purchase"))


def header(plan: WithinPlan, title: str, counted: str) -> Any:
    """Facts of the model (left) and of the guarantee (right)."""
    guarantee = plan.guarantee
    left = [
        ("Dep. Variable:", shorten(plan.design.response_name, 18)),
        ("Model:", "Linear, within"),
        ("Absorbed:", shorten(plan.absorbed, 18)),
        ("Std. Errors:", "clustered" if plan.whole else "by the model"),
        ("Groups of 2 or more:" if plan.whole else "Rows less groups:", counted),
    ]
    right = [
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Adjacency:", guarantee.adjacency),
        ("Protected:", f"each {shorten(plan.absorbed, 14)}" if plan.whole else "each row"),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
    ]
    return paired_facts(marked_title(title, guarantee), left, right)


def noise_facts(plan: WithinPlan) -> NoiseFacts:
    """Standard deviations of the noise, for rows within the unit ball of the design's metric."""
    noise = plan.noise
    variances = {
        "an entry of X'X": noise.entry_variance,
        "an entry of X'y": noise.response_variance,
        "y'y": noise.square_variance,
        "groups" if plan.whole else "rows less groups": 2 / plan.count_eps**2,
    }
    rows = tuple((name, (float(np.sqrt(value)),)) for name, value in variances.items())
    return NoiseFacts(f"Noise ({noise.law}), differences within the unit ball", ("sd of noise",), rows)


def plan_notes(plan: WithinPlan) -> list[str]:
    """What a reader must know of any such model: what it guarantees and costs, then what it is."""
    return [*charge_notes(plan), *model_notes(plan)]


def charge_notes(plan: WithinPlan) -> list[str]:
    """The guarantee, and what was paid for it."""
    purchases = ", ".join(f"{purchase} {eps:.4g}" for purchase, eps, *_ in plan.budget)
    return [
        guarantee_sentence(plan.guarantee, "The fit is"),
        f"Budget: eps {plan.guarantee.eps:.4g}: {purchases}.",
    ]


def model_notes(plan: WithinPlan) -> list[str]:
    """What errors suppose, and what is not released."""
    errors = (
        f"Every {plan.absorbed} counts the same: squares and products within it are divided by its number of rows. "
        f"Standard errors are clustered by {plan.absorbed}."
        if plan.whole
        else "Standard errors (model-based) suppose that residuals of rows are independent, with equal variance, and "
        f"that slopes do not differ by {plan.absorbed}. Otherwise they may be far too small, above all with few "
        f"groups; with {argument('unit', plan.absorbed)} they are clustered, which needs many groups."
    )
    return [
        f"{errors} They account for the noise.",
        f"The effects of {plan.absorbed} are not released, and there is no noise for them. {_rows_without(plan)}",
        *(f"{note}." for note in plan.design.notes),
    ]


def _rows_without(plan: WithinPlan) -> str:
    """What the rows of each group cost, and what becomes of those in none."""
    if plan.whole:
        return rows_of_nobody(plan.design.formula, plan.absorbed)
    return (
        f"Each takes up one row: rows less groups are all rows but one of each {plan.absorbed}. Rows without a value "
        f"of {plan.absorbed} are left out{', and counted as lost' if plan.counted_eps else ' and not counted'}."
    )


@dataclass(frozen=True, eq=False)
class AbsorbedResults(InferenceMixin, Released):
    """A linear model with one absorbed factor, ``y ~ x1 + x2 | firm``, as `dpstats.ols` returns it.

    Attributes
    ----------
    plan : WithinPlan
        The public plan of the release.
    released : ReleasedWithin
        What was released: sums of squares and products within groups, and a count.
    counts : RowCounts or None
        What counted the rows, or groups and one row of each, before the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> firm, x = np.repeat(np.arange(2000), 5), rng.uniform(0, 1, 10_000)
    >>> rows = {"firm": firm, "x": x, "y": 0.5 * x + rng.normal(0, 0.1, 10_000) + rng.uniform(0, 0.4, 2000)[firm]}
    >>> domain = {"x": (0, 1), "y": (-0.5, 1.5)}
    >>> fit = dp.ols("y ~ x | firm", rows, eps=1.0, domain=domain)
    >>> fit
    <AbsorbedResults: y ~ x | firm; eps=1, add_remove, certified>
    >>> list(fit.params.index), fit.guarantee.certified, list(fit.budget.index)
    (['x'], True, ['row counts', 'statistics', 'count', 'cover'])
    >>> fit.debiased.shape == fit.bse.shape == fit.tvalues.shape == fit.pvalues.shape
    True
    >>> fit.get_prediction({"x": [0.5]})
    Traceback (most recent call last):
    dpstats.errors.NotReleasedError: get_prediction: the effects of firm are not released; t_test tests differences
    >>> fit.glance().loc[0, "absorbed"]
    'firm'
    >>> "Absorbed:" in fit.summary().as_text()
    True
    """

    plan: WithinPlan
    released: ReleasedWithin
    counts: RowCounts | None = None

    instead: ClassVar[Mapping[str, str]] = {
        **OF_LINES,
        "fixef": "the effects of the groups are not released",
        "nobs": "count is about the number of rows beside one of each group, or of groups where these are protected",
    }

    @property
    def guarantee(self) -> Guarantee:
        """Of everything in this object."""
        return self.plan.guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What each part of the budget bought."""
        return budget_of(self.plan)

    @property
    def count(self) -> float:
        """About how many rows there are beside one of each group; with groups as records, groups of several rows."""
        return self.counted[0]

    @property
    def counted(self) -> tuple[float, float]:
        """`count` as it was released, and the standard deviation of its noise: errors suppose that much at least."""
        return max(self.released.counted, 0.0), self.plan.counted(self.released).deviation

    @cached_property
    def params(self) -> pd.Series[float]:
        """Coefficients in the user's units, shrunk as the noise asks for: for prediction."""
        plan, names = self.plan, list(self.plan.part.names)
        with quiet():
            scaled = plan.equations(self.released).solve(plan.radius, None, np.ones(len(names)))
        return pd.Series(plan.part.back_transform()[0] @ scaled, index=names, name="params")

    @property
    def scale(self) -> float:
        """The variance of the residuals, in squared units of the response."""
        spread = self._inference.estimates.spread
        if not hasattr(spread, "value"):
            raise NotReleasedError("scale: clustered errors need no variance of the residuals, and none is released")
        return float(spread.value) * self.plan.design.response_scaling()[1] ** 2

    def predict(self, newdata: Any) -> pd.Series[float]:
        """What the columns add to the response, x'params, without the effect of the group, which is not released.

        Differences of rows of one group are predicted differences of their responses. NaN for incomplete rows.

        Parameters
        ----------
        newdata : DataFrame or another table
            Numeric columns are clipped to the Domain's ranges.

        Raises
        ------
        DataError
            If `newdata` lacks a column the formula needs.

        Examples
        --------
        >>> fit.predict({"x": [0.2, 0.8]}).shape
        (2,)
        """
        table, design = as_table(newdata), self.plan.design
        exog, complete = design.exog(table)
        predicted = np.full(len(exog), np.nan)
        columns = self.plan.part.positions
        cells = exog[complete][:, columns] * design.scale[columns] + design.center[columns]
        with quiet():
            predicted[complete] = cells @ self.params.to_numpy()
        return pd.Series(predicted, index=table.index, name="predicted")

    def get_prediction(self, *_: Any, **__: Any) -> NoReturn:
        """Mean responses are those of a group, whose effect is not released."""
        raise NotReleasedError(
            f"get_prediction: the effects of {self.plan.absorbed} are not released; t_test tests differences"
        )

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model."""
        plan, (count, deviation) = self.plan, self.counted
        kind = "groups" if plan.whole else "rows_less_groups"
        facts = {
            "family": "gaussian",
            "method": "statistics",
            "absorbed": plan.absorbed,
            "df_model": len(plan.part.names),
            kind: round(count),
            f"{kind}_std_error": deviation,
            **{name: getattr(plan.guarantee, name) for name in ("eps", "delta", "adjacency", "unit", "certified")},
        }
        return WideFrame([facts])

    @property
    def notes(self) -> list[str]:
        """What no reader of the coefficients may miss, the most important first; `summary` has three of them.

        Examples
        --------
        >>> any("slopes do not differ by firm" in note for note in fit.notes)
        True
        """
        few = self._few_groups()
        unknown = [] if few else self._unidentified_note()
        return [*counts_note(self), *few, *unknown, *faults_line(self), *model_notes(self.plan)]

    def summary(self, *, full: bool = False) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html, as_latex and as_markdown.

        Parameters
        ----------
        full : bool
            Also the noise, and all notes.
        """
        about = about_rows(*self.counted).removeprefix("about ")
        tables = [
            header(self.plan, "Private Linear Model with an Absorbed Factor", about),
            inference_table(self.uncertainty()),
        ]
        notes = self.notes
        if check_flag("full", full):
            tables.append(facts_table(noise_facts(self.plan)))
        elif (more := len(notes) - MOST_NOTES) > 0:
            notes = [*notes[:MOST_NOTES], f"{more} more note{'s' * (more > 1)}: summary(full=True)."]
        return Summary(tables, [*charge_notes(self.plan), *notes])

    def _unidentified_note(self) -> list[str]:
        """Which coefficients have no interval, why, and what would help."""
        unknown = [str(name) for name, error in self.bse.items() if np.isinf(error)]
        if not unknown:
            return []
        group, together = self.plan.absorbed, self._varying_together(unknown)
        pairs = [
            f"{joined(names)} {'varies' if len(names) == 1 else 'vary'} within {group}, but hardly apart from {other}."
            for other, names in together.items()
        ]
        pairs.append(
            f"Two columns that rise together in each {group} cannot be told apart: both intervals are wide or blank, "
            "and those of other columns can be blank too. Leave one of the two out."
        )
        reason = (
            f"there are too few rows, or too little variation within {group} and apart from other columns, for the "
            "noise. Narrower declared ranges, fewer or less collinear columns or a larger eps help. Leave out a "
            f"column that never varies within {group}: it cannot be estimated at any budget, and raises the errors "
            "of the others."
        )
        sentences = [f"Not identified at this budget: {', '.join(unknown)}."]
        if not together:
            sentences += [sentence(reason), *pairs]
        elif sum(map(len, together.values())) < len(unknown):
            sentences += [*pairs, f"For coefficients that are blank even then, {reason}"]
        else:
            sentences += pairs
        return [" ".join(sentences)]

    def _varying_together(self, unknown: Sequence[str]) -> dict[str, list[str]]:
        """Those that hardly vary apart from others, by the other column of each, or columns."""
        estimates, names = self._inferred.table.estimates, list(self.plan.part.names)
        squares, partners = np.diag(estimates.information), dict[str, list[str]]()
        for place in map(names.index, unknown):
            if estimates.identified.inflations[place] < INFLATED:
                continue
            sizes = np.where(squares > 0, squares, np.inf)
            alike = np.abs(estimates.information[place]) / np.sqrt(sizes[place] * sizes)
            alike[place] = 0.0
            partner = int(np.argmax(alike))
            partners.setdefault(names[partner] if alike[partner] >= ALIKE else "other columns", []).append(names[place])
        return partners

    def _few_groups(self) -> list[str]:
        """That clustered errors have too few groups for the noise, or for the normal distribution."""
        if not self.plan.whole:
            return []
        (count, deviation), name = self.counted, self.plan.absorbed
        if count < SEEN_SDS * deviation:
            return [
                f"Too few groups: the number of {name} with two rows or more cannot be told from noise (s.d. "
                f"{deviation:,.0f}), so intervals are very wide or blank. With {argument('unit', name)} and this eps "
                f"it stands out from about {round(ENOUGH_SDS * deviation, -1):,.0f} on. Nearly all coefficients then "
                "have an interval if columns fill their ranges; if not, three times as many may be needed. Raise eps, "
                f"or leave {argument('unit')} out, which protects single rows and needs many rows instead."
            ]
        if count + LIKELY_SDS * deviation < ENOUGH_GROUPS:
            return [
                f"Few groups: where the noise is small, errors that are clustered by fewer than about {ENOUGH_GROUPS} "
                "groups are too small. Without noise 95 % intervals covered .84 to .93 for 5 to 30 groups."
            ]
        return []

    def __repr__(self) -> str:
        return f"<AbsorbedResults: {formula_of(self.plan)}; {self.guarantee}>"

    @property
    def _design(self) -> PublicDesign:
        return self.plan.part  # type: ignore[return-value]

    @property
    def _family(self) -> Family:
        return Gaussian()

    @cached_property
    def _inferred(self) -> ReleasedErrors:
        size = len(self.plan.part.names)
        with quiet():
            return ReleasedErrors(self.plan.fitted(self.released), np.eye(size), np.zeros(size))

    def to_dict(self) -> dict[str, Any]:
        facts = {name: _plain(value) for name, value in self.released._asdict().items()}
        counted = {} if self.counts is None else {"counts": self.counts.to_dict()}
        return {"plan": self.plan.to_dict(), "released": facts, **counted}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        plan, stored = WithinPlan.from_dict(facts["plan"]), facts["released"]
        sums = np.asarray(stored["sums"], dtype=np.float64)
        if sums.shape != (len(plan.part.names) + 1,) * 2 or not np.isfinite(sums).all():
            raise ValueError("the stored matrix does not suit the plan")
        rest = (None if stored[name] is None else np.array(stored[name], float) for name in ("spread", "deviations"))
        counts = RowCounts.from_dict(facts["counts"]) if "counts" in facts else None
        return cls(plan, ReleasedWithin(sums, float(stored["counted"]), *rest), counts)


def _plain(value: Any) -> Any:
    """An array as lists, with None for what is no number."""
    if not isinstance(value, np.ndarray):
        return value
    return [None if np.isnan(one) else one for one in value.tolist()] if value.ndim == 1 else value.tolist()
