"""The released fits of the groups of a factor, and their pooling by empirical Bayes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import safe_repr
from dpstats.cached import cached_property
from dpstats.data import as_table
from dpstats.domain.declarations import Scalar, canonical
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.inference import ModelSpread, ReleasedLaw, SpanNoise, identify, project_forms
from dpstats.inference.estimates import LEVEL, check_level
from dpstats.inference.pooling import GroupModel, Pooled, steady_informations
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.least_squares import whole_model
from dpstats.mechanisms.statistics import Moments
from dpstats.plan.tables import method_name
from dpstats.plots import groups as draw_groups
from dpstats.privacy.guarantee import Guarantee
from dpstats.quiet import quiet
from dpstats.results.contrasts import to_the_noise
from dpstats.results.explained_share import debiased_params
from dpstats.results.glm_results import GLMResults
from dpstats.results.stored import Released, guarantee_sentence, marked_title
from dpstats.summaries import Summary, full_width, paired_facts, shorten
from dpstats.wording import argument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float = NDArray[np.float64]

COLUMNS = ("estimate", "std_error", "conf_low", "conf_high")  # of each coefficient of a group, by broom's names


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """A release as the score of a model about any coefficients t, in model units: pull - H (t - at)."""

    information: Float  # H with its noise, shape (p, p)
    pull: Float  # the score at `at`, shape (p,)
    at: Float  # 0 for released sums; else the released coefficients, where H was taken; shape (p,)
    law: SpanNoise  # of the noise in H
    drawn: Float  # covariance of the objective's noise, shape (p, p)
    statistics: Moments | None

    @classmethod
    def of(cls, fit: GLMResults) -> ScoreSums:
        """Of a fit with released sums, or with the information at its coefficients: then to first order about them."""
        plan, released, size = fit.plan, fit.released, len(fit.plan.names)
        if isinstance(released, ReleasedSums):
            assert plan.objective.statistics is not None
            moments = Moments.of(plan.objective.statistics, released.sums)
            removed = None if moments.law.removed is None else moments.law.removed[:size, :size, :size, :size]
            law, zero = SpanNoise(moments.law.metric[:size, :size], moments.law.variance, removed), np.zeros(size)
            return cls(moments.matrix[:size, :size], moments.matrix[:size, size], zero, law, np.diag(zero), moments)
        stage = plan.stages[-1].plan
        assert isinstance(released, Information)
        assert stage.information is not None
        noise = stage.information.noise
        matrix, law = project_forms(released.matrix, SpanNoise(noise.metric, noise.entry_variance), plan.design.forms())
        pull = stage.curvature * (fit.scaled_params - stage.shrunk_towards)
        drawn = ReleasedLaw(stage.noise, stage.noise_shape).covariance
        return cls(matrix, pull, fit.scaled_params, law, drawn, None)

    def score(self, centre: Float, information: Float | None = None) -> Float:
        """The score at `centre`, shape (p,), by the released information or another."""
        return np.asarray(self.pull - (self.information if information is None else information) @ (centre - self.at))

    def noise(self, centre: Float, left: Float | None = None) -> Float:
        """Covariance of the noise in the score at `centre`, shape (p, p); `left` is that of H where it has less."""
        if self.statistics is not None:
            return self.statistics.equations(*whole_model(len(centre))).coefficient_noise(centre)
        apart = centre - self.at
        return np.asarray(self.drawn + (self.law.square(np.outer(apart, apart)) if left is None else left))


def pooled_groups(fits: Sequence[GLMResults], whole: GLMResults) -> Pooled | None:
    """Empirical Bayes of the groups' coefficients; None if all rows together do not identify each (proofs/groups)."""
    groups, total = [ScoreSums.of(fit) for fit in fits], ScoreSums.of(whole)
    size, law = len(total.pull), groups[0].law
    # The release of all rows and the sum of the releases of the groups estimate the same sums.
    apart = len(groups) * law.variance
    share = apart / (apart + total.law.variance)
    released = np.array([one.information for one in groups])
    information = share * total.information + (1 - share) * released.sum(axis=0)
    identified = identify(information, SpanNoise(total.law.metric, share * total.law.variance, None))
    if not identified.active.all():
        return None
    linear = total.statistics is not None
    if linear:
        centre = identified.inverse @ (share * total.pull + (1 - share) * np.sum([one.pull for one in groups], axis=0))
    else:
        centre = debiased_params(whole._inferred)
    residuals, rows = _residuals(groups, total, whole, share, centre)
    steady, scores = steady_informations(released, law, information), np.array([one.score(centre) for one in groups])
    noise = [one.noise(centre) for one in groups]
    if not linear:
        # The noise in H counts times the distance of the coefficients; the steady information has less of it.
        scores = np.array([one.score(centre, own) for one, own in zip(groups, steady.informations, strict=True)])
        noise = [one.noise(centre, steady.noise(centre - one.at)) for one in groups]
    model = GroupModel(
        centre=centre,
        informations=steady.informations,
        scores=scores,
        noise=np.array(noise),
        total_score=total.score(centre),
        total_noise=total.noise(centre),
        residuals=residuals,
        rows=rows,
        sizes=whole.plan.stages[-1].plan.radius / np.sqrt(size * (np.diag(law.metric) if linear else np.ones(size))),
        known_dispersion=not linear,
    )
    if not linear:
        return model.pooled()
    expected = model.expected_noise(model.pooled().between, np.tile(-centre, (len(groups), 1)), law)
    return replace(model, informations=steady_informations(released - expected, law, information).informations).pooled()


def _residuals(
    groups: Sequence[ScoreSums], total: ScoreSums, whole: GLMResults, share: float, centre: Float
) -> tuple[float, float]:
    """The sum of squares about the centre and the rows of all groups; the dispersion and 1 where that was released."""
    if total.statistics is None:
        assert isinstance(whole.released, Information)
        assert isinstance(whole.released.spread, ModelSpread)
        return whole.released.spread.phi, 1.0
    every = [one.statistics.matrix for one in groups if one.statistics is not None]
    sums = share * total.statistics.matrix + (1 - share) * np.sum(every, axis=0)
    direction = np.append(-centre, 1.0)
    statistics = whole.plan.objective.statistics
    assert statistics is not None
    at, constant = statistics.intercept
    return float(direction @ sums @ direction), max(float(sums[at, at]) / constant**2, 1.0)


@dataclass(frozen=True, eq=False)
class GroupResults(Released, Mapping[Scalar, GLMResults]):
    """The fits of the groups of a factor, under one charge; a mapping from its declared levels to their fits.

    Attributes
    ----------
    by : str
        The factor.
    levels : tuple
        Its declared levels, whether or not any row has them.
    fits : tuple of GLMResults
        One a level, as `dpstats.glm` returns them.
    whole : GLMResults or None
        With ``shrink=True`` the fit of all rows of the groups together; else None.
    guarantee : Guarantee
        Of everything this object shows.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 6000), "y": rng.uniform(0, 1, 6000), "place": rng.integers(0, 3, 6000)}
    >>> domain = {"x": (0, 1), "y": (0, 1), "place": [0, 1, 2]}
    >>> groups = dp.glm("y ~ x", rows, eps=1.0, domain=domain, by="place", shrink=True, seed=1)
    >>> groups
    <GroupResults of 3 levels of place: y ~ x; eps=1, add_remove, NOT CERTIFIED>
    >>> groups[2]
    <GLMResults: gaussian, y ~ x; eps=0.85, add_remove, NOT CERTIFIED>
    >>> list(groups.params.columns), groups.bse.shape
    (['Intercept', 'x'], (3, 2))
    >>> bool((groups.own <= 1).all(axis=None))
    True
    >>> list(groups.between.columns)
    ['mean', 'std_error', 'sd_between']
    >>> groups.conf_int(0.1).shape
    (6, 2)
    >>> list(groups.tidy().columns)
    ['place', 'term', 'estimate', 'std_error', 'conf_low', 'conf_high', 'own', 'unpooled']
    >>> groups.to_frame().shape
    (6, 8)
    >>> axes = groups.plot("x")  # with the extra "plots"
    >>> len(axes.get_yticklabels())
    3
    >>> any("declared" in note for note in groups.notes)
    True
    """

    by: str
    levels: tuple[Scalar, ...]
    fits: tuple[GLMResults, ...]
    whole: GLMResults | None
    guarantee: Guarantee

    def __getitem__(self, level: Scalar) -> GLMResults:
        wanted = canonical(level)
        for one, fit in zip(self.levels, self.fits, strict=True):
            if wanted is not None and canonical(one) == wanted:
                return fit
        raise KeyError(level)

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self.levels)

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients of every group."""
        return tuple(self.fits[0].plan.names)

    @cached_property
    def pooled(self) -> Pooled | None:
        """The pooled coefficients in model units; None without ``shrink``, or if all rows do not identify each."""
        if self.whole is None:
            return None
        with quiet():
            return pooled_groups(self.fits, self.whole)

    @cached_property
    def _estimates(self) -> tuple[Float, Float]:
        """Coefficients and standard errors in the user's units, shape (groups, p)."""
        if self.whole is None:
            errors = [fit.has_errors for fit in self.fits]
            coef = [fit.debiased if has else fit.params for fit, has in zip(self.fits, errors, strict=True)]
            unknown = np.full(len(self.names), np.inf)
            deviations = [fit.bse if has else unknown for fit, has in zip(self.fits, errors, strict=True)]
            return np.array(coef, dtype=np.float64), np.array(deviations, dtype=np.float64)
        if self.pooled is None:
            return np.full((len(self), len(self.names)), np.nan), np.full((len(self), len(self.names)), np.inf)
        matrix, shift = self.fits[0].plan.design.back_transform()
        variances = np.einsum("ij,gjk,ik->gi", matrix, self.pooled.covariance, matrix)
        return self.pooled.coef @ matrix.T + shift, np.sqrt(variances)

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients in the user's units, a row a level; shrunk to their mean as far as the noise asks for."""
        return self._frame(self._estimates[0])

    @property
    def bse(self) -> pd.DataFrame:
        """Their standard errors, a row a level; infinite where the budget identifies nothing."""
        return self._frame(self._estimates[1])

    @property
    def own(self) -> pd.DataFrame:
        """How much of each coefficient in model units is from the group's own rows, from 0 to 1; a row a level.

        Raises
        ------
        NotReleasedError
            Without ``shrink``, where it is all of it.
        """
        return self._frame(self._pooled.own)

    @property
    def between(self) -> pd.DataFrame:
        """The mean of the groups' coefficients, its standard error and the spread between groups, in the user's units.

        Raises
        ------
        NotReleasedError
            Without ``shrink``.
        """
        pooled = self._pooled
        matrix, shift = self.fits[0].plan.design.back_transform()
        variances = np.einsum("ij,jk,ik->i", matrix, pooled.mean_covariance, matrix)
        spreads = np.sqrt(matrix**2 @ pooled.between**2)
        table = {"mean": matrix @ pooled.mean + shift, "std_error": np.sqrt(variances), "sd_between": spreads}
        return WideFrame(pd.DataFrame(table, index=list(self.names)))

    def conf_int(self, alpha: float = LEVEL) -> pd.DataFrame:
        """Intervals of coverage 1 - alpha, a row a level and a coefficient: columns "lower" and "upper".

        With ``shrink`` that is their coverage in the mean over groups whose coefficients are normal about their mean.
        """
        low, high = self._ends(check_level(alpha))
        index = pd.MultiIndex.from_product([list(self.levels), list(self.names)], names=[self.by, "term"])
        return WideFrame(pd.DataFrame({"lower": low.ravel(), "upper": high.ravel()}, index=index))

    def tidy(self, alpha: float = LEVEL) -> pd.DataFrame:
        """A row for each level and coefficient, in broom's words.

        The columns are the factor; term; estimate, std_error, conf_low and conf_high; with ``shrink`` own, as in the
        property, and unpooled, the coefficient of the group's fit as released.
        """
        coef, errors = self._estimates
        numbers = (coef, errors, *self._ends(check_level(alpha)))
        table = {
            self.by: np.repeat(np.array(self.levels, dtype=object), len(self.names)),
            "term": list(self.names) * len(self),
            **{name: values.ravel() for name, values in zip(COLUMNS, numbers, strict=True)},
        }
        if self.whole is not None:
            own = np.zeros_like(coef) if self.pooled is None else self.pooled.own
            unpooled = np.array([fit.params for fit in self.fits])
            table |= {"own": own.ravel(), "unpooled": unpooled.ravel()}
        return WideFrame(pd.DataFrame(table))

    def to_frame(self) -> pd.DataFrame:
        """The same as `tidy`, at 95 %."""
        return self.tidy()

    def predict(self, newdata: Any) -> pd.Series[float]:
        """The expected response of new rows, each by the coefficients of its level.

        Parameters
        ----------
        newdata : DataFrame or another table
            With the factor's column. Numeric columns are clipped to the Domain's ranges.

        Returns
        -------
        Series
            NaN for rows of a level that is not declared, or with a missing value.

        Examples
        --------
        >>> groups.predict({"x": [0.5, 0.5], "place": [0, 7]}).isna().tolist()
        [False, True]
        """
        table = as_table(newdata)
        design = self.fits[0].plan.design
        assert isinstance(design, DesignSpec)
        codes = table.column(self.by).codes({canonical(level): at for at, level in enumerate(self.levels)})  # type: ignore[misc]
        predicted = np.full(len(codes), np.nan)
        index = None
        for at, fit in enumerate(self.fits):
            shown = fit
            if self.whole is not None:
                coef = np.full(len(self.names), np.nan) if self.pooled is None else self.pooled.coef[at]
                shown = replace(fit, scaled_params=coef)
            # Of cells one warning is enough.
            rows = shown._model_rows(newdata, None, warns=at == 0, coefficients=shown.scaled_params)
            values = shown._predicted(rows._replace(complete=rows.complete & (codes == at)))
            index = values.index
            predicted[codes == at] = values.to_numpy()[codes == at]
        return pd.Series(predicted, index=index, name="predicted")

    def plot(self, term: str | None = None, **arguments: Any) -> Axes:
        """Draw one coefficient of all groups, by size, with intervals; see `dpstats.plots.groups`."""
        return draw_groups(self, term, **arguments)

    def summary(self, terms: Sequence[str] | None = None) -> Summary:
        """A table of the groups for each coefficient; as_text, as_html, as_latex and as_markdown.

        Parameters
        ----------
        terms : sequence of str, optional
            The coefficients to show; all by default.

        Raises
        ------
        ArgumentError
            If a term is none of the model's.

        Examples
        --------
        >>> print(groups.summary(["x"]).tables[-1].title)
        x
        """
        chosen = list(self.names) if terms is None else list(terms)
        if isinstance(terms, str) or not chosen or any(term not in self.names for term in chosen):
            raise ArgumentError(
                f"terms must be a list of coefficients among {list(self.names)}, got {safe_repr(terms)}"
            )
        return Summary(
            [self._header(), *([] if self.pooled is None else [self._means()]), *map(self._table, chosen)], self.notes
        )

    @property
    def notes(self) -> list[str]:
        """What no reader of the table may miss."""
        notes = [
            guarantee_sentence(self.guarantee, "The groups together are"),
            f"Each row belongs to one group at most, so all groups cost what one does; the levels of {self.by} are "
            "those declared, whether or not any row has them.",
        ]
        if self.whole is None:
            unbounded = int(np.isinf(self._estimates[1]).any(axis=1).sum())
            if unbounded:
                why = "too few rows for this budget"
                if not any(fit.has_errors for fit in self.values()):
                    why = f"by default no group pays for standard errors. {argument('inference', True)} pays for them"
                notes.append(
                    f"{unbounded} of {len(self)} groups have a coefficient without an interval: {why}. "
                    f"{argument('shrink', True)} lets three groups or more borrow from each other."
                )
            return notes
        if self.pooled is None:
            return [*notes, "All rows together do not identify every coefficient at this budget: nothing is shown."]
        return [
            *notes,
            "coef is shrunk to the mean of the groups as far as the noise and the spread between groups ask for; own "
            "is the part that is from the group's own rows. A group of few rows has the mean of all, and an interval "
            "as wide as the spread between groups.",
            "Intervals cover in the mean over groups, if these are normal about their mean; a single group far from "
            f"the others is pulled to them. {self.by}'s own fits, unpooled, are in this result by level.",
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "levels": list(self.levels),
            "fits": [fit.to_dict() for fit in self.fits],
            "whole": None if self.whole is None else self.whole.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        whole = facts["whole"]
        return cls(
            facts["by"],
            tuple(facts["levels"]),
            tuple(GLMResults.from_dict(one) for one in facts["fits"]),
            None if whole is None else GLMResults.from_dict(whole),
            Guarantee(**facts["guarantee"]),
        )

    def __repr__(self) -> str:
        return f"<GroupResults of {len(self)} levels of {self.by}: {self.fits[0].formula}; {self.guarantee}>"

    @property
    def _pooled(self) -> Pooled:
        if self.pooled is not None:
            return self.pooled
        why = (
            "all rows together do not identify every coefficient" if self.whole else f"pass {argument('shrink', True)}"
        )
        raise NotReleasedError(f"the groups were not pooled: {why}")

    def _frame(self, values: Float) -> pd.DataFrame:
        return WideFrame(pd.DataFrame(values, pd.Index(list(self.levels), name=self.by), list(self.names)))

    def _ends(self, alpha: float) -> tuple[Float, Float]:
        """Lower and upper ends of the intervals, shape (groups, p)."""
        if self.whole is not None:
            coef, errors = self._estimates
            reach = -float(special.ndtri(max(alpha / 2, 5e-324))) * errors
            centre = np.where(np.isfinite(coef), coef, 0.0)
            return centre - reach, centre + reach
        unknown = np.full((len(self.names), 2), [-math.inf, math.inf])
        ends = np.array([fit.conf_int(alpha).to_numpy() if fit.has_errors else unknown for fit in self.fits])
        return ends[..., 0], ends[..., 1]

    def _header(self) -> SimpleTable:
        plan, guarantee = self.fits[0].plan, self.guarantee
        left = [
            ("Dep. Variable:", shorten(plan.design.response_name, 22)),
            ("Groups by:", shorten(self.by, 22)),
            ("Groups:", str(len(self))),
            ("Family:", plan.family.name),
            ("Method:", method_name(plan)),
        ]
        right = [
            ("Adjacency:", guarantee.adjacency),
            ("Epsilon:", f"{guarantee.eps:.6g}"),
            ("Delta:", f"{guarantee.delta:.6g}"),
            ("Eps of a group:", f"{plan.guarantee.eps:.6g}"),
            ("Eps of all rows:", "0" if self.whole is None else f"{self.whole.guarantee.eps:.6g}"),
        ]
        return paired_facts(marked_title("Private Models of Groups", guarantee), left, right)

    def _means(self) -> SimpleTable:
        rows = [
            (name, [to_the_noise(mean, error), to_the_noise(error, error), to_the_noise(spread, spread)])
            for name, mean, error, spread in self.between.itertuples()
        ]
        return full_width(["mean", "std err", "sd between"], rows, [14, 14, 14], title="Mean of the groups")

    def _table(self, term: str) -> SimpleTable:
        at, (low, high), (coef, errors) = self.names.index(term), self._ends(LEVEL), self._estimates
        rows = []
        for place, level in enumerate(self.levels):
            error = float(errors[place, at])
            cells = [to_the_noise(float(value[place, at]), error) for value in (coef, errors, low, high)]
            own = [] if self.pooled is None else [f"{self.pooled.own[place, at]:.2f}"]
            rows.append((str(level), [*cells, *own]))
        shown = {"coef": 11, "std err": 10, "[0.025": 11, "0.975]": 11}
        shown |= {} if self.pooled is None else {"own": 6}
        return full_width(list(shown), rows, list(shown.values()), title=term)
