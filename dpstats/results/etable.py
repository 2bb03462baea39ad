"""Several fits side by side: a coefficient a row, a fit a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_flag
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.families import NegativeBinomial
from dpstats.frames import WideFrame
from dpstats.plan.row_counts import about_rows
from dpstats.plan.tables import auxiliary_facts, capped_at, in_units, modelled_level, penalty_text
from dpstats.privacy.accounting import compose
from dpstats.results.absorbed import AbsorbedResults
from dpstats.results.contrasts import to_the_noise
from dpstats.results.glm_results import GLMResults
from dpstats.results.groups import GroupResults
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.model import FittedModel
from dpstats.results.statistics import IVResults, StatisticsResults
from dpstats.results.stored import Printed
from dpstats.results.summary import has_exact_noise, rows_text
from dpstats.summaries import GAP, WIDTH, Summary, format_number, full_width, wrap_text
from dpstats.wording import part_of

Fit = GLMResults | AbsorbedResults | StatisticsResults

FIT_WIDTH = 14  # the least width of the column of a fit
NAME_WIDTH = 16  # the least width of the column of names

COMMON_FACTS = ("Family", "Alpha", "Epsilon", "Delta", "Neighbours", "Certified", "Rows")
"""Facts that every table has; others have a row where fits differ in them."""


STARS = {"*": 0.05, "**": 0.01, "***": 0.001}  # the mark of p-values below a level

MOST_STARS = 3

RATIOS = {"logit": "odds ratios", "log": "ratios of means"}  # what exponentiated coefficients are, by link


@dataclass(frozen=True, eq=False)
class ETable(Printed):
    """Fits side by side; `etable` makes it.

    Attributes
    ----------
    fits : tuple of GLMResults, AbsorbedResults, StatisticsResults and IVResults
    labels : tuple of str
        Of the columns.
    exponentiate, stars : bool
        As `etable` was given them.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> fits = {terms: dp.logit(f"income ~ {terms}", adult.data, 1.0, domain=adult.domain) for terms in ("age", "sex")}
    >>> dp.etable(fits).labels
    ('age', 'sex')
    >>> table = dp.etable(fits)
    >>> "education" in table.summary().as_text()
    False
    """

    fits: tuple[Fit, ...]
    labels: tuple[str, ...]
    exponentiate: bool = False
    stars: bool = False

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(Column(fit, self.exponentiate, self.stars) for fit in self.fits)

    @property
    def frame(self) -> pd.DataFrame:
        """Numbers: a row for each term; columns (label, "coef"), (label, "std_error") and (label, "noise_at_most").

        "coef" is bias-corrected if the fit has errors and as released otherwise; NaN for terms that are not in a fit.
        Ratios have "ratio", "low" and "high" instead, the ends of their 95 % intervals.
        """
        numbers = [one.ratios if self.exponentiate else one.numbers for one in self._columns]
        return WideFrame(pd.concat(dict(zip(self.labels, numbers, strict=True)), axis=1))

    def summary(self) -> Summary:
        """The tables, in statsmodels' look; as_text, as_html, as_latex and as_markdown."""
        # No number and no interval goes on in another line; two fits at least stand beside each other.
        texts = [text for one in self._columns for cells in one.cells.values() for text in cells]
        width = max(FIT_WIDTH, *map(len, [*texts, *(text for one in self._columns for text in one.figures.values())]))
        abreast = max(2, (WIDTH - max(NAME_WIDTH, *map(len, _names(self._columns)))) // (width + 1))
        panels = [slice(start, start + abreast) for start in range(0, len(self.fits), abreast)]
        tables = [table for which in panels for table in self._panel(which, width)]
        for table in tables:
            table.unbroken = None
        tables[0].unbroken = self._whole()
        return Summary(tables, self._notes())

    def _whole(self) -> SimpleTable:
        """All fits beside each other in one table, their facts below a line."""
        rows = [
            (name if at == 0 else "", [one.cells.get(name, ("", ""))[at] for one in self._columns])
            for name in _names(self._columns)
            for at in (0, 1)
        ]
        facts = self._facts(slice(None))
        data, stubs = [cells for _, cells in [*rows, *facts]], [name for name, _ in [*rows, *facts]]
        table = SimpleTable(data, headers=list(self.labels), stubs=stubs)
        table[len(rows)].dec_below = "header_dec_below"  # row 0 holds the labels
        return table

    def __repr__(self) -> str:
        return f"<ETable of {', '.join(self.labels)}>"

    def _panel(self, which: slice, width: int) -> list[SimpleTable]:
        """Coefficients and facts of as many fits as stand beside each other, in columns of a `width`."""
        columns = self._columns[which]
        widths = [width] * len(columns)
        room = WIDTH - sum(widths) - len(widths)
        rows: list[tuple[str, list[str]]] = []
        for name in _names(columns):
            # What is left of a long name stands beside the errors.
            for part, at in zip_longest(wrap_text(name, room, "  "), (0, 1)):
                rows.append((part or "", ["" if at is None else one.cells.get(name, ("", ""))[at] for one in columns]))
        table = full_width(list(self.labels[which]), rows, widths, narrow=False)
        return [table, full_width([], self._facts(which), widths, narrow=False)]

    def _facts(self, which: slice) -> list[tuple[str, list[str]]]:
        """What stands below the coefficients: what every table has, and what not all fits have in common."""
        facts, shown = [one.facts for one in self._columns], []
        for name in dict.fromkeys(name for fact in facts for name in fact):
            cells = {fact.get(name, "") for fact in facts}
            if cells != {""} if name in (*FIGURES, *OF_SUMS) else name in COMMON_FACTS or len(cells) > 1:
                shown.append((name, [fact.get(name, "") for fact in facts[which]]))
        return shown

    def _notes(self) -> list[str]:
        """What the cells are, and what the fits cost together."""
        notes = []
        if self.exponentiate:
            notes.append(f"Ratios, exp(coef): {' and '.join(dict.fromkeys(RATIOS[_link(fit)] for fit in self.fits))}.")
        if any(one.errors for one in self._columns):
            bracketed = "95 % intervals" if self.exponentiate else "standard errors"
            notes.append(f"In brackets: {bracketed} of bias-corrected coefficients.")
            if self.stars:
                levels = ", ".join(f"{mark} p < {level:g}" for mark, level in STARS.items())
                notes.append(f"{levels}, by p-values that account for the privacy noise.")
        exact = [one.exact and not self.exponentiate for one in self._columns if not one.errors]
        if any(exact):
            notes.append("In square brackets: the standard deviation of the noise in coefficients as released.")
        if not all(exact):
            notes.append("Nothing in brackets: coefficients as released, shrunk towards zero, without standard errors.")
        about: dict[str, list[str]] = {}
        for label, fit in zip(self.labels, self.fits, strict=True):
            about.setdefault(_about(fit), []).append(label)
        notes += [f"{', '.join(labels)}: {what}." for what, labels in about.items()]
        uncertified = [
            f"{label} is NOT CERTIFIED: {fit.guarantee.reason}."
            for label, fit in zip(self.labels, self.fits, strict=True)
            if not fit.guarantee.certified
        ]
        charges = {
            fit.statistics.released.tobytes() if isinstance(fit, StatisticsResults) else place: fit.guarantee
            for place, fit in enumerate(self.fits)
        }
        guarantees = list(charges.values())
        if len(guarantees) < len(self.fits):
            notes.append("Models of the same released statistics share one charge.")
        if len(guarantees) > 1 and len({(one.adjacency, one.unit) for one in guarantees}) == 1:
            total = compose(guarantees)
            spent = f"eps {total.eps:.4g}" + (f" and delta {total.delta:.4g}" if total.delta else "")
            what = "These fits" if len(guarantees) == len(self.fits) else "The releases"
            notes.append(f"{what} were charged separately; on the same rows they cost {spent} together.")
        return [*uncertified, *notes]


def etable(
    fits: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[str] | None = None,
    *,
    exponentiate: bool = False,
    stars: bool = False,
) -> ETable:
    """Released fits side by side: coefficients, errors or bounds on the noise, and the budget of each.

    Parameters
    ----------
    fits : sequence of GLMResults, or dict
        The keys of a dict are the labels. Tuned fits are allowed, and so are models with an absorbed factor, of
        released statistics and with instruments.
    labels : sequence of str, optional
        Of the columns; (1), (2), ... by default.
    exponentiate : bool
        Show odds ratios, or ratios of means, with their 95 % intervals; for fits with a logit or log link.
    stars : bool
        Mark coefficients by their p-values: ``*`` below .05, ``**`` below .01, ``***`` below .001.

    Returns
    -------
    ETable
        ``frame`` has the numbers; ``summary()``, ``to_latex()``, ``to_html()`` and ``to_markdown()`` the table.

    Raises
    ------
    ArgumentError
        If there are no fits, an entry is not a fit, the labels do not match the fits, or a fit has no ratios.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> small, large = (dp.logit(f"income ~ age + sex{more}", adult.data, 1.0, domain=adult.domain, seed=1)
    ...                 for more in ("", " + education_num"))
    >>> dp.etable({"small": small, "large": large})
    <ETable of small, large>
    """
    if isinstance(fits, GroupResults):
        raise ArgumentError("fits are of the rows of several groups under one charge: their table is fits.summary()")
    if isinstance(fits, Mapping):
        if labels is not None:
            raise ArgumentError("labels must be left out if fits is a dict, whose keys are the labels")
        labels, fits = list(fits), list(fits.values())
    if not isinstance(fits, Sequence) or not fits:
        raise ArgumentError("fits must be a list of results, such as [fit1, fit2], or a dict of them by label")
    found = tuple(one if isinstance(one, FittedModel | Fit) else getattr(one, "fit", None) for one in fits)
    for place, one in enumerate(found):
        if not isinstance(one, FittedModel | Fit):
            raise ArgumentError(
                f"fits[{place}] must be what dp.glm returns, got {type(fits[place]).__name__}{part_of(fits[place])}"
            )
        if not isinstance(one, Fit):
            raise ArgumentError(
                f"fits[{place}] is a regression of a stream, whose regressions share one charge; use history, "
                "between and change of the stream to compare them"
            )
    given = list(labels) if isinstance(labels, (list, tuple)) else []
    named = [f"({place + 1})" for place in range(len(found))] if labels is None else given
    if len(named) != len(found) or len(set(named)) != len(named) or not all(isinstance(one, str) for one in named):
        raise ArgumentError(f"labels must be {len(found)} different strings, one for each fit")
    if check_flag("exponentiate", exponentiate) and (
        others := [label for label, one in zip(named, found, strict=True) if _link(one) not in RATIOS]  # type: ignore[arg-type]
    ):
        raise ArgumentError(f"exponentiate needs a logit or log link, and {others[0]} has another one; leave it out")
    return ETable(found, tuple(named), exponentiate, check_flag("stars", stars))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Column:
    """A fit as it stands in a table."""

    fit: Fit
    exponentiate: bool
    stars: bool

    @cached_property
    def errors(self) -> bool:
        """Whether there are standard errors to show."""
        return shows_errors(self.fit)

    @property
    def exact(self) -> bool:
        """Whether the standard deviation of the noise in the coefficients is known exactly."""
        return isinstance(self.fit, GLMResults) and has_exact_noise(self.fit)

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """coef, std_error and noise_at_most, a row for each column of the design that the fit kept."""
        fit = self.fit
        columns = {
            "coef": fit.debiased if self.errors else fit.params,
            "std_error": fit.bse if self.errors else np.nan,
            "noise_at_most": fit.noise_at_most if isinstance(fit, GLMResults) else np.nan,
        }
        table = pd.DataFrame(columns)
        return table[fit.plan.kept] if isinstance(fit, GLMResults) else table

    @cached_property
    def ratios(self) -> pd.DataFrame:
        """ratio, low and high, a row for each column; no ends where there are no errors."""
        numbers = self.numbers["coef"].to_frame("coef")
        ends = self.fit.conf_int() if self.errors else pd.DataFrame(np.nan, index=numbers.index, columns=[0, 1])
        with np.errstate(over="ignore"):
            ratios = np.exp(numbers.join(ends).to_numpy())
        return pd.DataFrame(ratios, numbers.index, ["ratio", "low", "high"])

    @cached_property
    def cells(self) -> dict[str, tuple[str, str]]:
        """Coefficient or ratio, and what is known of its error, as text, by name."""
        if self.exponentiate:
            cells = {str(name): _ratio_cell(*row) for name, *row in self.ratios.itertuples()}
        else:
            cells = {str(name): self._cell(*row) for name, *row in self.numbers.itertuples()}
        if not self.stars:
            return cells
        marks = {name: _stars(self.fit.pvalues[name]) if self.errors else "" for name in cells}
        return {
            name: (f"{first}{marks[name]}{GAP * (MOST_STARS - len(marks[name]))}", f"{second}{GAP * MOST_STARS}")
            for name, (first, second) in cells.items()
        }

    def _cell(self, coef: float, error: float, noise: float) -> tuple[str, str]:
        if self.errors:
            return _with_error(coef, error) if np.isfinite(error) else (f"{coef:.2g}", "")
        if np.isnan(noise):
            return f"{coef:.4g}", ""
        return to_the_noise(coef, noise / 10), f"[{to_the_noise(noise, noise)}]" if self.exact else ""

    @cached_property
    def figures(self) -> dict[str, str]:
        """What was released of the fit of the whole model."""
        if not isinstance(self.fit, GLMResults) or not self.errors:
            return {}
        table = self.fit.fitstats.T.to_dict()
        known = {
            words: (table[name]["value"], table[name]["std_error"]) for words, name in FIGURES.items() if name in table
        }
        return {words: " ".join(_with_error(*figure)) for words, figure in known.items() if np.isfinite(figure[0])}

    @cached_property
    def facts(self) -> dict[str, str]:
        """What stands below the coefficients."""
        guarantee = self.fit.guarantee
        spent = {
            "Epsilon": f"{guarantee.eps:.4g}",
            "Delta": f"{guarantee.delta:.4g}",
            "Neighbours": guarantee.adjacency,
            "Protected": "rows" if guarantee.unit is None else f"each {guarantee.unit}",
            "Certified": "yes" if guarantee.certified else "NO",
        }
        if not isinstance(self.fit, GLMResults):
            return self._facts_of_sums() | spent
        plan = self.fit.plan
        information = plan.stages[-1].plan.information
        spread = "model" if information is None else information.purchase.spread
        return {
            "Response": plan.design.response_name,
            "Family": plan.family.name.replace("_", " "),
            **({"Alpha": f"{plan.family.alpha:.4g}"} if isinstance(plan.family, NegativeBinomial) else {}),
            "Method": plan.request.method,
            "Penalty": penalty_text(plan),
            "Residual cap": "" if (cap := capped_at(plan)) is None else in_units(cap),
            "Errors": (spread if spread in ("robust", "clustered") else "model") if self.errors else "none",
            **dict.fromkeys(("Weights", "Offset", "Subset", "Trials at most"), ""),
            **{name.rstrip(":"): fact for name, fact in auxiliary_facts(plan)},
            **spent,
            "Rows": rows_text(self.fit),
            **dict.fromkeys(FIGURES, ""),
            **self.figures,
        }

    def _facts_of_sums(self) -> dict[str, str]:
        fit, facts = self.fit, {"Family": "gaussian"}
        if isinstance(fit, AbsorbedResults):
            counted = fit.plan.counted(fit.released)
            facts |= {"Response": fit.plan.design.response_name, "Method": "statistics", "Absorbed": fit.plan.absorbed}
            facts |= {"Errors": "clustered" if fit.plan.whole else "model"}
            rows = "Groups" if fit.plan.whole else "Rows - groups"
            return facts | {rows: about_rows(counted.count, counted.deviation)}
        assert isinstance(fit, StatisticsResults)
        row = fit.glance().iloc[0]
        facts |= {"Response": fit.design.response_name, "Method": row["method"], "Penalty": row["penalty"]}
        facts |= {"Errors": "model" if self.errors else "none"}
        if isinstance(fit, IVResults):
            facts |= {"Endogenous": ", ".join(fit.endogenous)}
            facts |= {"First-stage F": format_number(float(fit.first_stage["F"].min()))}
        return facts | {"Rows": about_rows(row["nobs"], row["nobs_std_error"])}


FIGURES = {"R2": "r_squared", "Deviance expl.": "deviance_explained"}
"""Figures of the fit, each with its standard error in brackets."""

OF_SUMS = ("Absorbed", "Endogenous", "First-stage F", "Rows - groups", "Groups")  # facts of models of released sums


def _names(columns: Sequence[Column]) -> list[str]:
    """The coefficients that any of the fits has kept."""
    return list(dict.fromkeys(str(name) for one in columns for name in one.numbers.index))


def _link(fit: Fit) -> str:
    return fit.plan.family.link if isinstance(fit, GLMResults) else "identity"


def _about(fit: Fit) -> str:
    """What the coefficients are about."""
    if isinstance(fit, GLMResults):
        return modelled_level(fit.plan)
    if isinstance(fit, AbsorbedResults):
        return f"the mean of {fit.plan.design.response_name} within {fit.plan.absorbed}"
    instrumented = ", by two-stage least squares" if isinstance(fit, IVResults) else ""
    return f"the mean of {fit.design.response_name}{instrumented}"


def _with_error(value: float, error: float) -> tuple[str, str]:
    """A number to its noise, and its error in brackets."""
    return to_the_noise(value, error), f"({to_the_noise(error, error)})"


def _ratio_cell(ratio: float, low: float, high: float) -> tuple[str, str]:
    """A ratio and its interval."""
    if not (np.isfinite([ratio, low, high]).all() and high > low):
        return f"{ratio:.2g}", ""
    size = (high - low) / 4  # about a standard error
    return to_the_noise(ratio, size), f"[{to_the_noise(low, size)}, {to_the_noise(high, size)}]"


def _stars(pvalue: float) -> str:
    """The longest mark whose level a p-value is below."""
    return max((mark for mark, level in STARS.items() if pvalue < level), key=len, default="")
