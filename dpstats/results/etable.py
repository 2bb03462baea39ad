"""Several fits side by side: a coefficient a row, a fit a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_flag, named_rows, safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.families import Gaussian, NegativeBinomial
from dpstats.frames import WideFrame
from dpstats.plan.methods import fit_spec, no_fit_statistics
from dpstats.plan.row_counts import about_rows
from dpstats.plan.row_notes import narrowed_columns
from dpstats.plan.tables import (
    RATIOS,
    auxiliary_facts,
    capped_at,
    in_units,
    method_name,
    modelled_level,
    penalty_text,
    ratios_of,
)
from dpstats.privacy.accounting import compose
from dpstats.results.absorbed import AbsorbedResults
from dpstats.results.contrasts import to_the_noise
from dpstats.results.error_advice import choice_notes, hidden_shares, withheld_names
from dpstats.results.fitted_model import FittedModel
from dpstats.results.glm_results import GLMResults
from dpstats.results.groups import GroupResults
from dpstats.results.statistics import IVResults, StatisticsResults
from dpstats.results.stored import Printed, json_text
from dpstats.results.summary import place_of_noise
from dpstats.results.summary_header import counted_name, rows_text
from dpstats.results.summary_notes import has_exact_noise
from dpstats.summaries import GAP, WIDTH, Summary, format_number, full_width, with_title, without_lists, wrap_text
from dpstats.wording import part_of
from dpstats.writing import written_text

Fit = GLMResults | AbsorbedResults | StatisticsResults

FIT_WIDTH = 14  # the least width of the column of a fit
NAME_WIDTH = 16  # the least width of the column of names
NAME_LINES = 3  # so many lines may a name have before a fit goes to another panel

COMMON_FACTS = ("Family", "Alpha", "Epsilon", "Delta", "Neighbours", "Certified", "Rows", "Persons")
"""Facts that every table has; others have a row where fits differ in them."""

USUAL = {"Penalty": {"none"}, "Protected": {"rows"}, "Errors": {"model", "none"}, "Residual cap": {""}}
"""What readers take for granted where a table has no such row: with anything else it has one, also if all agree."""

STARS = {"*": 0.05, "**": 0.01, "***": 0.001}  # the mark of p-values below a level

UNIDENTIFIED = "not identified"  # in the place of an error that is infinite

WITHHELD = "not shown"  # in that of a column of a lasso that may stand for another one


@dataclass(frozen=True, eq=False)
class ETable(Printed):
    """Fits side by side; `etable` makes it.

    Attributes
    ----------
    fits : tuple of GLMResults, AbsorbedResults, StatisticsResults and IVResults
    labels : tuple of str
        Of the columns.
    names : dict
        What each row shown is called, by the name of its coefficient.
    exponentiate, stars : bool
        As `etable` was given them.
    title : str
        Above the table; perhaps empty.

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
    >>> table.to_csv().splitlines()[0]
    ',age,age,age,sex,sex,sex'
    >>> dp.etable(fits, title="Income").to_latex(label="tab:income").splitlines()[2:4]
    ['\\\\caption{Income}', '\\\\label{tab:income}']
    """

    fits: tuple[Fit, ...]
    labels: tuple[str, ...]
    names: Mapping[str, str]
    exponentiate: bool = False
    stars: bool = False
    title: str = ""

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return tuple(Column(fit, self.exponentiate, self.stars) for fit in self.fits)

    @property
    def frame(self) -> pd.DataFrame:
        """Numbers: a row for each term; columns (label, "coef"), (label, "std_error") and (label, "noise_at_most").

        "coef" is bias-corrected if the fit has errors and as released otherwise; NaN for terms that are not in a fit.
        Ratios have "ratio", "low" and "high" instead, the ends of their 95 % intervals. With stars (label, "stars") has
        the marks.
        """
        numbers = [one.ratios if self.exponentiate else one.numbers for one in self._columns]
        if self.stars:
            numbers = [table.assign(stars=one.marks) for table, one in zip(numbers, self._columns, strict=True)]
        table = pd.concat(dict(zip(self.labels, numbers, strict=True)), axis=1)
        return WideFrame(table.loc[list(self.names)].rename(index=dict(self.names)))

    def summary(self) -> Summary:
        """The tables, in statsmodels' look; as_text, as_html, as_latex and as_markdown."""
        # Numbers and intervals are not broken between lines; at least two fits stand side by side.
        texts = [text for one in self._columns for name in self.names for text in one.cells.get(name, ())]
        width = max(FIT_WIDTH, *map(len, [*texts, *(text for one in self._columns for text in one.figures.values())]))
        abreast = self._abreast(width)
        panels = [slice(start, start + abreast) for start in range(0, len(self.fits), abreast)]
        tables = [table for which in panels for table in self._panel(which, width)]
        for table in tables:
            table.unbroken = None
        tables[0].unbroken = self._whole()
        return Summary([with_title(tables[0], self.title), *tables[1:]], self._notes())

    def to_latex(self, path: str | Path | None = None, *, label: str = "", notes: bool = True) -> str:
        """The table as LaTeX, in the style of booktabs, also written to `path` if one is given.

        With a title or a label it is a table environment: ``\\caption{title}`` if there is one and ``\\label{label}``
        above the tabular, and the notes below it. Without either it is the tabular, centred, and a minipage with the
        notes, for an environment of yours; ``notes=False`` leaves the notes out.

        Raises
        ------
        ArgumentError
            If `label` is no label of LaTeX, or the file cannot be written.
        """
        summary = self.summary()
        shown = summary if check_flag("notes", notes) else Summary(summary.tables)
        return written_text(path, shown.as_latex(label, floating=self.title != ""))

    def to_csv(self, path: str | Path | None = None) -> str:
        """`frame` as CSV, also written to `path` if one is given: all digits, two lines of headers, and no notes.

        With ``stars=True`` each fit has a column of its marks.
        """
        return written_text(path, self.frame.to_csv())

    def _abreast(self, width: int) -> int:
        """How many fits stand beside each other, if long names go on beside the errors, and in a third line."""
        for number in range(len(self.fits), 2, -1):
            room = WIDTH - number * (width + 1)
            if room >= NAME_WIDTH and all(
                len(wrap_text(name, room, "  ")) <= NAME_LINES for name in self.names.values()
            ):
                return number
        return 2

    def _whole(self) -> SimpleTable:
        """All fits side by side in one table, their facts below a line."""
        rows = [
            (shown if at == 0 else "", [one.cells.get(name, ("", ""))[at] for one in self._columns])
            for name, shown in self.names.items()
            for at in (0, 1)
        ]
        facts = self._facts(slice(None))
        data, stubs = [cells for _, cells in [*rows, *facts]], [name for name, _ in [*rows, *facts]]
        table = SimpleTable(data, headers=list(self.labels), stubs=stubs)
        table[len(rows)].dec_below = "header_dec_below"  # row 0 holds the labels
        return with_title(table, self.title)

    def __repr__(self) -> str:
        return f"<ETable of {', '.join(self.labels)}>"

    def _panel(self, which: slice, width: int) -> list[SimpleTable]:
        """Coefficients and facts of the fits that have room side by side, in columns of a `width`."""
        columns = self._columns[which]
        widths = [width] * len(columns)
        room = WIDTH - sum(widths) - len(widths)
        rows: list[tuple[str, list[str]]] = []
        inside = [name for name in self.names if any(name in one.cells for one in columns)]
        for name, shown in zip(inside, without_lists([self.names[name] for name in inside], room), strict=True):
            # A long name continues next to the errors.
            for part, at in zip_longest(wrap_text(shown, room, "  "), (0, 1)):
                rows.append((part or "", ["" if at is None else one.cells.get(name, ("", ""))[at] for one in columns]))
        table = full_width(list(self.labels[which]), rows, widths, narrow=False)
        return [table, full_width([], self._facts(which), widths, narrow=False)]

    def _facts(self, which: slice) -> list[tuple[str, list[str]]]:
        """The rows below the coefficients: facts of every table, those in which fits differ, and unusual ones."""
        facts, shown = [one.facts for one in self._columns], []
        for name in dict.fromkeys(name for fact in facts for name in fact):
            cells = {fact.get(name, "") for fact in facts}
            figured = HIDDEN in cells or any(name in one.figures for one in self._columns)
            known = figured if name in FIGURES else cells != {""}
            notable = name in COMMON_FACTS or len(cells) > 1 or not cells <= USUAL.get(name, cells)
            if known if name in (*FIGURES, *OF_SUMS, *ROW_FACTS) else notable:
                shown.append((name, [fact.get(name, "") for fact in facts[which]]))
        return shown

    def _notes(self) -> list[str]:
        """Notes on the meaning of the cells, and on the joint cost of the fits."""
        notes = []
        if self.exponentiate:
            kinds = dict.fromkeys(ratios_of(fit) for fit in self.fits)
            notes.append(f"Ratios, exp(coef): {' and '.join(kinds)}.")
        brackets = {one.cells[name][1].strip(GAP) for one in self._columns for name in self.names if name in one.cells}
        if any(one.errors for one in self._columns) and brackets != {UNIDENTIFIED}:
            bracketed = "95 % intervals" if self.exponentiate else "standard errors"
            notes.append(f"In brackets: {bracketed} of bias-corrected coefficients.")
            if self.stars:
                levels = ", ".join(f"{mark} p < {level:g}" for mark, level in STARS.items())
                notes.append(f"{levels}, by p-values that account for the privacy noise.")
        if UNIDENTIFIED in brackets:
            above = "coefficient as released, shrunk towards zero"
            above = f"exponential of the {above}" if self.exponentiate else above
            notes.append(f"{UNIDENTIFIED} at this budget: the number above is the {above}.")
        exact = [one.exact and not self.exponentiate for one in self._columns if not one.errors]
        if any(exact):
            notes.append(
                "In square brackets: the standard deviation of the privacy noise in coefficients as released, which "
                "are shrunk towards zero; it is not a standard error."
            )
        if not all(exact):
            notes.append("Nothing in brackets: coefficients as released, shrunk towards zero, without standard errors.")
        about: dict[str, list[str]] = {}
        for label, fit in zip(self.labels, self.fits, strict=True):
            about.setdefault(_about(fit), []).append(label)
        notes += [f"{', '.join(labels)}: {what}." for what, labels in about.items()]
        labelled = zip(self.labels, self.fits, strict=True)
        notes += choice_notes({label: fit for label, fit in labelled if isinstance(fit, GLMResults)})
        for label, fit in zip(self.labels, self.fits, strict=True):
            narrowed = narrowed_columns(fit.plan) if isinstance(fit, GLMResults) else {}
            ranges = [f"{name} ({one.interval[0]:,.6g}, {one.interval[1]:,.6g})" for name, one in narrowed.items()]
            notes += (
                [f"{label}: rows outside the bought range of {' or '.join(ranges)} are left out."] if ranges else []
            )
        uncertified = [
            f"{label} is NOT CERTIFIED: {fit.guarantee.reason}."
            for label, fit in zip(self.labels, self.fits, strict=True)
            if not fit.guarantee.certified
        ]
        guarantees = list({_release_of(fit): fit.guarantee for fit in self.fits}.values())
        if len(guarantees) < len(self.fits):
            notes.append("Columns of the same release share one charge.")
        if len(guarantees) > 1 and len({(one.adjacency, one.unit) for one in guarantees}) == 1:
            total = compose(guarantees)
            spent = f"eps {total.eps:.4g}" + (f" and delta {total.delta:.4g}" if total.delta else "")
            what = "these fits" if len(guarantees) == len(self.fits) else "the releases"
            notes.append(f"On the same rows {what} cost {spent} together.")
        return [*uncertified, *notes]


def _release_of(fit: Fit) -> object:
    """What a fit and its copies, such as one from a file, or all models of the same statistics have in common."""
    if isinstance(fit, StatisticsResults):
        return fit.statistics.released.tobytes()
    # Two releases may both be zero throughout, and only then alike.
    return json_text(fit) if fit.params.any() else id(fit)


def etable(
    fits: Sequence[Any] | Mapping[str, Any],
    labels: Sequence[str] | None = None,
    *,
    exponentiate: bool = False,
    stars: bool = False,
    keep: str | Sequence[str] | None = None,
    drop: str | Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    title: str | None = None,
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
        Show odds ratios, or ratios of means or rates, with their 95 % intervals; for fits with a logit or log link.
    stars : bool
        Mark coefficients by their p-values: ``*`` below .05, ``**`` below .01, ``***`` below .001.
    keep, drop : str or list of str, optional
        Rows to show, in this order, and rows to leave out: names of coefficients, parts of names such as ``"sex"``, or
        regular expressions. All are shown by default.
    rename : dict, optional
        What rows are called, by the name of their coefficient: ``{"sex[T.Male]": "Men"}``.
    title : str, optional
        Above the table; the caption in LaTeX, HTML and Word.

    Returns
    -------
    ETable
        ``frame`` has the numbers; ``summary()``, ``to_latex()``, ``to_html()`` and ``to_markdown()`` the table.

    Raises
    ------
    ArgumentError
        If there are no fits, an entry is not a fit, the labels do not match the fits, a fit has no ratios, or a name is
        of no coefficient.

    Examples
    --------
    >>> import dpstats as dp
    >>> adult = dp.datasets.load_adult()
    >>> small, large = (dp.logit(f"income ~ age + sex{more}", adult.data, 1.0, domain=adult.domain, seed=1)
    ...                 for more in ("", " + education_num"))
    >>> dp.etable({"small": small, "large": large})
    <ETable of small, large>
    >>> table = dp.etable([small, large], drop="Intercept", rename={"age": "Age"}, title="Income")
    >>> table.frame.index.tolist()
    ['sex[T.Male]', 'Age', 'education_num']
    """
    if isinstance(fits, GroupResults):
        raise ArgumentError("fits are of the rows of several groups under one charge: their table is fits.summary()")
    if isinstance(fits, Mapping):
        if labels is not None:
            raise ArgumentError("labels must be left out if fits is a dict, whose keys are the labels")
        labels, fits = list(fits), list(fits.values())
    if not isinstance(fits, Sequence) or not fits:
        raise ArgumentError("fits must be a list of results, such as [fit1, fit2], or a dict of them by label")
    chosen: list[Fit] = []
    for place, given in enumerate(fits):
        one = given if isinstance(given, FittedModel | Fit) else getattr(given, "fit", None)
        if isinstance(one, Fit):
            chosen.append(one)
        elif isinstance(one, FittedModel):
            raise ArgumentError(
                f"fits[{place}] is a regression of a stream, whose regressions share one charge; use history, "
                "between and change of the stream to compare them"
            )
        else:
            kind = type(given).__name__
            raise ArgumentError(f"fits[{place}] must be what dp.glm returns, got {kind}{part_of(given)}")
    if labels is None:
        labels = [f"({place + 1})" for place in range(len(chosen))]
    named = list(labels) if isinstance(labels, (list, tuple)) else []
    if not all(isinstance(one, str) for one in named) or not len(named) == len(set(named)) == len(chosen):
        raise ArgumentError(f"labels must be {len(chosen)} different strings, one for each fit")
    if check_flag("exponentiate", exponentiate) and (
        others := [label for label, one in zip(named, chosen, strict=True) if one._family.link not in RATIOS]
    ):
        raise ArgumentError(f"exponentiate needs a logit or log link, and {others[0]} has another one; leave it out")
    if not isinstance(title, str | None):
        raise ArgumentError(f"title must be a string, got {safe_repr(title)}")
    names = _names([Column(one, exponentiate=False, stars=False) for one in chosen])
    shown = named_rows(names, keep, drop, rename)
    return ETable(tuple(chosen), tuple(named), shown, exponentiate, check_flag("stars", stars), title or "")


@dataclass(frozen=True, eq=False)
class Column:
    """The column of a fit in a table."""

    fit: Fit
    exponentiate: bool
    stars: bool

    @cached_property
    def errors(self) -> bool:
        """Whether there are standard errors to show."""
        return self.fit.has_errors

    @property
    def exact(self) -> bool:
        """Whether the standard deviation of the noise in the coefficients is known exactly."""
        return isinstance(self.fit, GLMResults) and has_exact_noise(self.fit)

    @property
    def selects(self) -> bool:
        """Whether a coefficient of zero is one that was left out."""
        return isinstance(self.fit, GLMResults) and self.fit.selects

    @cached_property
    def numbers(self) -> pd.DataFrame:
        """coef, std_error and noise_at_most, a row for each column of the design that is in the model."""
        fit = self.fit
        columns = {
            "coef": fit.debiased if self.errors else fit.params,
            "std_error": fit.bse if self.errors else np.nan,
            "noise_at_most": fit.noise_at_most if isinstance(fit, GLMResults) else np.nan,
        }
        table = pd.DataFrame(columns)
        return table[fit.in_model] if isinstance(fit, GLMResults) else table

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
        """The texts of each coefficient or ratio and of its error, by name."""
        if self.exponentiate:
            cells = {str(name): self._ratio_cell(str(name), *row) for name, *row in self.ratios.itertuples()}
        else:
            cells = {str(name): self._cell(*row) for name, *row in self.numbers.itertuples()}
        withheld = withheld_names(self.fit) if isinstance(self.fit, GLMResults) else []
        cells |= {name: (cells[name][0], WITHHELD) for name in withheld}
        if not self.stars:
            return cells
        marks, widest = self.marks, len(STARS)
        return {
            name: (f"{first}{marks[name]:{GAP}<{widest}}", f"{second}{GAP * widest}")
            for name, (first, second) in cells.items()
        }

    @cached_property
    def marks(self) -> pd.Series[str]:
        """The stars of each coefficient in the model; none without errors."""
        names = self.numbers.index
        pvalues = self.fit.pvalues[names] if self.errors else pd.Series(1.0, index=names)
        return pd.Series(["*" * sum(value < level for level in STARS.values()) for value in pvalues], index=names)

    def _cell(self, coef: float, error: float, noise: float) -> tuple[str, str]:
        if self.errors:
            return _with_error(coef, error) if np.isfinite(error) else (f"{coef:.2g}", UNIDENTIFIED)
        if np.isnan(noise):
            return f"{coef:.4g}", ""
        shown = to_the_noise(coef, place_of_noise(coef, noise, selects=self.selects))
        return shown, f"[{to_the_noise(noise, noise)}]" if self.exact else ""

    def _ratio_cell(self, name: str, ratio: float, low: float, high: float) -> tuple[str, str]:
        """A ratio and its interval; without errors to the place where the noise is known to be, as coefficients are."""
        if not self.errors:
            coef, noise = map(float, self.numbers.loc[name, ["coef", "noise_at_most"]])
            place = ratio * place_of_noise(coef, noise, selects=self.selects)
            return (to_the_noise(ratio, place) if np.isfinite(noise) else f"{ratio:.4g}"), ""
        if not np.isfinite(self.numbers["std_error"][name]):
            return f"{ratio:.3g}", UNIDENTIFIED
        if not (np.isfinite([ratio, low, high]).all() and high > low):
            return f"{ratio:.2g}", f"[{low:.2g}, {high:.2g}]"
        size = (high - low) / 4  # about a standard error
        # Two digits at least: the end of a wide interval is far above the ratio, which is not 0.
        shown, *ends = (to_the_noise(one, min(size, one or size)) for one in (ratio, low, high))
        return shown, f"[{', '.join(ends)}]"

    @cached_property
    def figures(self) -> dict[str, str]:
        """The released figures on the fit of the whole model."""
        if not isinstance(self.fit, GLMResults) or not self.errors:
            return {}
        table, hidden = self.fit.fitstats.T.to_dict(), hidden_shares(self.fit)
        for name in ("r_squared", "deviance_explained"):
            if name in table and name not in hidden and np.isfinite(table[name]["value"]):
                return {self._share: " ".join(_with_error(table[name]["value"], table[name]["std_error"]))}
        return {}

    @cached_property
    def facts(self) -> dict[str, str]:
        """The facts below the coefficients."""
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
            "Method": method_name(plan),
            "Penalty": penalty_text(plan),
            "Residual cap": "" if (cap := capped_at(plan)) is None else in_units(cap),
            "Errors": (spread if spread in ("robust", "clustered") else "model") if self.errors else "none",
            **dict.fromkeys(ROW_FACTS, ""),
            **{name.rstrip(":"): fact for name, fact in auxiliary_facts(plan)},
            **spent,
            counted_name(self.fit).capitalize(): rows_text(self.fit),
            **dict.fromkeys(FIGURES, ""),
            self._share: self._why_no_share,
            **self.figures,
        }

    @property
    def _share(self) -> str:
        """What the share explained is called: that of capped residuals is no R2 of the responses."""
        assert isinstance(self.fit, GLMResults)
        if not isinstance(self.fit.plan.family, Gaussian):
            return "Deviance expl."
        return "R2" if capped_at(self.fit.plan) is None else "R2 (capped)"

    @property
    def _why_no_share(self) -> str:
        """What stands where the share explained is not known."""
        assert isinstance(self.fit, GLMResults)
        plan = self.fit.plan
        if self.fit.fit_sums is not None or (self.errors and "r_squared" in self.fit.fitstats.index):
            return HIDDEN
        obstacle = no_fit_statistics(plan.request, fit_spec(plan.request, plan.design, plan.family))
        return "not bought" if obstacle is None else "not offered"

    def _facts_of_sums(self) -> dict[str, str]:
        fit, facts = self.fit, {"Family": "gaussian"}
        if isinstance(fit, AbsorbedResults):
            facts |= {"Response": fit.plan.design.response_name, "Method": "statistics", "Absorbed": fit.plan.absorbed}
            facts |= {"Errors": "clustered" if fit.plan.whole else "model"}
            rows = "Groups" if fit.plan.whole else "Rows less groups"
            return facts | {rows: about_rows(*fit.counted)}
        assert isinstance(fit, StatisticsResults)
        row = fit.glance().iloc[0]
        facts |= {"Response": fit.design.response_name, "Method": row["method"], "Penalty": row["penalty"]}
        facts |= {"Errors": "model" if self.errors else "none"}
        if isinstance(fit, IVResults):
            facts |= {"Endogenous": ", ".join(fit.endogenous)}
            facts |= {"First-stage F": format_number(float(fit.first_stage["F"].min()))}
        return facts | {"Rows": about_rows(row["nobs"], row["nobs_std_error"])}


FIGURES = ("R2", "R2 (capped)", "Deviance expl.")
"""Figures of the fit, each with its standard error in brackets."""

HIDDEN = "hidden by noise"  # in the place of a figure that was paid for

ROW_FACTS = ("Weights", "Offset", "Subset", "Trials at most")  # without which a mean or a ratio is misread

OF_SUMS = ("Absorbed", "Endogenous", "First-stage F", "Rows less groups", "Groups")  # facts of models of released sums


def _names(columns: Sequence[Column]) -> list[str]:
    """The coefficients that any of the fits has kept."""
    return list(dict.fromkeys(str(name) for one in columns for name in one.numbers.index))


def _about(fit: Fit) -> str:
    """What the coefficients are about."""
    if isinstance(fit, GLMResults):
        return modelled_level(fit.plan)
    if isinstance(fit, AbsorbedResults):
        return f"the mean of {fit.plan.design.response_name} within {fit.plan.absorbed}"
    instrumented = ", by two-stage least squares" if isinstance(fit, IVResults) else ""
    return f"the mean of {fit.design.response_name}{instrumented}"


def _with_error(value: float, error: float) -> tuple[str, str]:
    """A number to the digits of its error, and the error in brackets."""
    return to_the_noise(value, error), f"({to_the_noise(error, error)})"
