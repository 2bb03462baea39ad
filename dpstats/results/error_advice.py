"""What is said of standard errors that are missing or wide, and what would give them."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import compress

import numpy as np

from dpstats.domain import Levels, Range
from dpstats.families.base import OF_PIECES
from dpstats.formula.design import DesignSpec
from dpstats.formula.expression import columns_of
from dpstats.inference import ModelSpread
from dpstats.mechanisms.design import SubDesign, formula_variables
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.mechanisms.spec import obstacle
from dpstats.plan import Plan
from dpstats.plan.error_notes import lost_errors, may_screen
from dpstats.plan.methods import narrowed_unasked
from dpstats.plan.notes import GREATEST_EPS
from dpstats.plan.row_notes import narrowed_columns
from dpstats.plan.tables import capped_at, has_many_columns, is_output
from dpstats.privacy.trimming import BOUGHT_EPS, NARROWEST, eps_despite_zeros
from dpstats.results.inference_mixin import shows_errors
from dpstats.results.model import NeededRows, ReleasedModel
from dpstats.results.standard_errors import (
    costly_references,
    hiding_terms,
    rare_factors,
    rare_levels,
    rare_references,
    sums_noise,
)
from dpstats.wording import argument, joined, phrase, purchase, sentence, shell_command

MOST_NAMES = 8  # coefficients that a note lists; more are counted

SHARE_WORDS = {"r_squared": "R2", "deviance_explained": "deviance explained"}
"""The explained shares of `fitstats`, as a table names them."""

WIDEST_SHARE = 0.25  # an explained share with a larger standard error is not shown in the table

MOSTLY_NOISE = 0.9  # of a standard error: from which share of it on its noise is nearly all

WIDE_RANGE = 10.0  # standard deviations of residuals: a response seldom fills a range that is wider

LARGEST_COUNT_ERROR = 0.15  # no eps is advised if the relative error of the count is larger

FEW_ROWS = 2.0
"""Fewer rows than so many times the error of their count, about 280 over eps, mostly predict as badly as a constant."""

MOST_HIDDEN = 3  # coefficients that others hide are named, the first so many of them

MOST_HIDING, LEAST_HIDDEN = 3, 0.15  # terms that hide others are named if they are few and hide this share of all

NEARLY_ALL = 0.8
"""Of the other coefficients: where rows are few a term is named only if it hides so many."""

STILL_WIDE = 2 * NARROWEST
"""Of a declared range: the values may fill a small part of an inner interval that has no more of it."""

FIRST = {
    "interval": "The first interval has too few events for this budget. Pass breaks= with a longer one",
    "cut_point": "The lowest level has too few rows for this budget. Join it with the next one",
}
"""What helps where the first level of a factor that a call has made is rare: no formula names another one."""


def no_errors_note(results: ReleasedModel) -> str:
    """What coefficients without standard errors are, and what buys those errors."""
    plan = results.plan
    if results.has_errors:
        check = phrase("dp.check", shell="python -m dpstats check")
        uncounted = plan.counts is None and isinstance(plan.design, DesignSpec)
        return (
            "Not identified: no coefficient has a standard error at this budget. coef is as released: shrunk towards "
            f"zero, with privacy noise that may turn its sign.{unknown_fit(results)} "
            + " ".join([*rare_references_note(results)[0], what_would_help(results)])
        ) + (f" Rows may also be lost to levels that are not declared, which {check} counts." if uncounted else "")
    exact = "coef is shrunk towards zero. 'noise sd' is that of the privacy noise in it and not a standard error"
    if isinstance(results.released, ReleasedSums):
        return f"{exact}."
    napp = f"{argument('method', 'napp')} releases standard errors"
    if is_output(plan):
        return f"{exact}; {napp}."
    if plan.request.method == "posterior":
        return f"The coefficients are one draw from a posterior flattened by the privacy budget; {napp}."
    without = "Coefficients are shrunk towards zero and contain privacy noise; this fit has no standard errors"
    if plan.focus is not None:
        return f"{without}, except for the randomised {plan.focus.treatment}: fit.focus() has its interval."
    reason = obstacle(plan.family, plan.request.penalty, plan.request.options)
    if results.kept_notes and may_screen(plan):  # it says what has errors
        return f"{without}."
    if reason is not None:
        return f"{without}. Inference {reason}."
    lost = lost_errors(plan)
    if lost is not None:
        return f"{without}: they were planned, but {lost}."
    counted, of = results._counted_records, plan.request.options.record.of
    few = counted is not None and counted[0] < FEW_ROWS * counted[1]
    alone = f" With so few {of} even their signs may be noise." if few else ""
    return f"{without}.{alone} {what_would_help(results)}"


def missing_notes(results: ReleasedModel) -> list[str]:
    """Which errors are missing, besides those that are withheld, and what would help."""
    if not shows_errors(results):
        return []
    notes: list[str] = []
    _, suspects = suspect_levels(results)
    withheld = withheld_names(results)
    unknown = [
        str(name) for name, error in results.bse.items() if np.isinf(error) and name not in {*withheld, *suspects}
    ]
    if unknown:
        which = ", ".join(unknown) if len(unknown) <= MOST_NAMES else f"{len(unknown)} coefficients (blank above)"
        # What names a cure comes before what helps in general, which does not help those that it is for.
        cures, cured = rare_references_note(results, suspects)
        general = [] if cured.issuperset(unknown) else [what_would_help(results)]
        rare = ", which few rows have, or none" if _of_rare_levels(results).issuperset(unknown) else ""
        hidden = _effects_left_to_others(results, unknown) + unknown_fit(results)
        lost = f"Not identified at this budget: {which}{rare}.{hidden}"
        notes.append(" ".join([lost, *cures, *general]))
    return notes


def _effects_left_to_others(results: ReleasedModel, unknown: Sequence[str]) -> str:
    """That other coefficients may hold the effects of numbers that are not identified, as if these were left out."""
    coded = {place for factor in fitted_last(results).dummies for place in factor.columns}
    numbers = [name for place, name in enumerate(results._fitted_names) if place not in coded and name != "Intercept"]
    blank = set(unknown).intersection(numbers)
    if not blank or blank.issuperset(numbers):
        return ""
    what, effects = ("it", "its effect") if len(unknown) == 1 else ("these", "their effects")
    wide = np.flatnonzero(results._inferred.table.estimates.in_wide_ranges)
    allowed = " Intervals allow for this." * blank.issubset(fitted_last(results).names[place] for place in wide)
    return f" Coefficients of columns correlated with {what} may contain {effects}.{allowed}"


def withheld_names(results: ReleasedModel) -> list[str]:
    """Columns that may stand for others that a lasso left out: no error of theirs is shown."""
    hidden = results._inference.withheld if shows_errors(results) else None
    return [] if hidden is None else [results._fitted_names[place] for place in np.flatnonzero(hidden)]


def withheld_note(results: ReleasedModel) -> list[str]:
    """Why no error is shown of these columns, and where it is."""
    withheld = withheld_names(results)
    if not withheld:
        return []
    few = withheld[:MOST_NAMES]
    more = f" and {len(withheld) - len(few)} more" if len(withheld) > len(few) else ""
    return [
        f"No error is shown for {', '.join(few)}{more}: an effect this uncertain does not explain the choice of "
        "its column, which may stand for a similar one. Its interval in the model chosen is that of fit.t_test."
    ]


def unadjusted_note(results: ReleasedModel) -> list[str]:
    """That errors are as if nobody had chosen the columns."""
    if not (results.ignores_selection and shows_errors(results)):
        return []
    apart = argument("split", "rows")
    return [f"Not adjusted for selection: the same rows chose the columns. {apart} keeps them apart."]


def choice_notes(fits: Mapping[str, ReleasedModel]) -> list[str]:
    """What a table of fits, by their labels, says of those whose rows chose the columns."""
    labels: dict[str, list[str]] = {}
    for label, fit in fits.items():
        if not fit.selects:
            continue
        notes = ["effects in the model chosen; a column without a cell was not chosen."]
        notes += ["columns are kept for prediction and may have no effect."] if fit.kept_notes else []
        unadjusted = bool(unadjusted_note(fit))
        notes += ["not adjusted for selection, as the same rows chose the columns."] if unadjusted else []
        for note in [*notes, *(note[0].lower() + note[1:] for note in withheld_note(fit))]:
            labels.setdefault(note, []).append(label)
    return [f"{', '.join(of)}: {note}" for note, of in labels.items()]


def names_cure(results: ReleasedModel) -> bool:
    """Whether `missing_notes` names the reference level of a factor, which no row has as it is declared, or few."""
    return shows_errors(results) and bool(rare_references_note(results, suspect_levels(results)[1])[0])


def what_would_help(results: ReleasedModel) -> str:
    """What would give more coefficients an interval, with a number of rows where the fit has not tried."""
    plan, needed, counted = results.plan, results.needed_rows, results._counted_records
    of, ways = plan.request.options.record.of, other_ways(results)
    insist, hiding = argument("inference", True), hiding_note(results) if results.has_errors else ""
    blank = float(np.mean(~np.isfinite(results._inference.se))) if results.has_errors else 0.0
    few = few_rows_note(results) if blank >= LEAST_HIDDEN else ""
    if plan.request.options.inference not in (None, "auto") or isinstance(results.released, ReleasedSums):
        if few:
            return f"{hiding}{few}" if hiding else f"{few} {sentence(ways)}"
        return f"{hiding}More rows or eps help too." if hiding else f"More rows or eps, {ways}."
    if results.has_errors:
        more = "more rows or eps help too." if hiding else f"more rows or eps, {ways}."
        return f"{hiding}{few}{' ' * bool(few)}{insist} spends eps on more of them; {more}"
    command = shell_command("plan", plan.family.name)
    suffices = needed is not None and needed.usual is not None and needed.usual <= needed.rows
    if needed is None or (knotted_columns(plan) and not suffices):
        forecast = phrase("plan.standard_errors(n)", shell=f"{command} --rows N")
        alike = plan.design.score_ratio == 1.0
        whole = plan.screening is None and plan.request.options.refit_share == 0 and alike
        return f"{insist} pays for them{f'; {forecast} forecasts them' if whole else ''}. {sentence(ways)}"
    if needed.usual is None:
        return f"No number of {of} is expected to be enough for all of them. {sentence(ways)}"
    if suffices:
        return (
            f"{insist} pays for them from the same eps, which this fit spent on its coefficients. By forecast these "
            f"{of} are enough for nearly all of them if {favourable_columns(plan)}, and may be "
            "enough for none if not."
        )
    rough = counted is not None and counted[1] > LARGEST_COUNT_ERROR * counted[0]
    enough = rows_or_eps(needed, plan, rough=rough)
    table = phrase("dp.plan(..., inference=True).by_rows()", shell=f"{command} --inference yes")
    return (
        f"{insist} pays for them. If {favourable_columns(plan)}, nearly all of them need about "
        f"{enough}. If not, they may need ten times as many: {table} has cautious numbers."
    )


def other_ways(results: ReleasedModel) -> str:
    """What helps besides rows and eps, of what the model has: a list that goes on from others, with its verb."""
    plan = results.plan
    ranges, of_formula = explaining_ranges(plan), isinstance(plan.design, DesignSpec)
    knotted, untold = knotted_columns(plan), explaining_ranges(plan, knotted=False)
    levels = [one for one in explaining_columns(plan).values() if isinstance(one, Levels) and len(one.values) > 2]
    if results.has_errors and of_formula:  # which levels are rare is released; of cells of an interaction it may not be
        part = fitted_last(results)
        crossed = any(":" in term.name for term in part.terms)
        levels = levels if crossed or rare_factors(part, results._inferred, certain=False) else []
    screen = phrase("screen=", shell="--set screen=K")
    chooses = "" if plan.screening is not None or plan.family.name in OF_PIECES else f" ({screen} chooses them)"
    typical = f"{phrase('typical=(mean, sd)', shell='typical values')} in the Domain (free)"
    ways = [
        *(["narrower ranges"] if ranges or plan.family.response != "binary" or not of_formula else []),
        *(["fewer knots"] if knotted else []),
        *([typical] if untold and all(one.typical is None for one in ranges) and not lacks_splines(results) else []),
        f"fewer or less collinear columns{chooses}",
        *(["merging rare levels"] if levels or not of_formula else []),
    ]
    return f"{joined(ways)} help"


def few_rows_note(results: ReleasedModel) -> str:
    """That rows times eps are too few for all coefficients and how many are enough, by a forecast; else empty."""
    needed, counted = results.needed_rows, results._counted_records
    if needed is None or (needed.usual is not None and needed.usual <= needed.rows):
        return ""
    of = results.plan.request.options.record.of
    if knotted_columns(results.plan):
        return f"{of.capitalize()} times eps may be too few."
    if needed.usual is None:
        return f"No number of {of} is expected to be enough for all of them at this eps."
    rough = counted is not None and counted[1] > LARGEST_COUNT_ERROR * counted[0]
    halves = "" if results.plan.request.options.split is None else " (both halves)"
    # Of columns that go together a lasso chooses several, and more of them the more rows there are.
    about = "at least" if results.plan.request.options.refit_share > 0 else "about"
    return (
        f"{of.capitalize()} times eps are too few: if {favourable_columns(results.plan, not_collinear=False)}, nearly "
        f"all coefficients need {about} {rows_or_eps(needed, results.plan, rough=rough)}{halves}."
    )


def rows_or_eps(needed: NeededRows, plan: Plan, *, rough: bool) -> str:
    """Rows that are enough at a plan's eps, and the eps that is for these, unless their number is too `rough`.

    Not for splines: columns of a usual shape hardly reach their ends, and others may need a sixteenth of the rows.
    """
    assert needed.usual is not None
    unit = 10.0 ** (math.floor(math.log10(needed.usual)) - 1)
    eps = float(f"{plan.guarantee.eps * needed.usual / needed.rows:.2g}")
    budget = "" if rough or eps > GREATEST_EPS else f" (or eps = {eps:g} with these)"
    return f"{math.ceil(needed.usual / unit) * unit:,.0f} {plan.request.options.record.of}{budget}"


def explaining_columns(plan: Plan) -> dict[str, Range | Levels | None]:
    """The declarations of columns that explain; of plain arrays none."""
    if not isinstance(plan.design, DesignSpec):
        return {}
    return {name: plan.design.domain.get(name) for name in plan.design.parsed.exog_columns}


def explaining_ranges(plan: Plan, *, knotted: bool = True) -> list[Range]:
    """Those of numbers other than 0 and 1, with those of splines or without."""
    left_out = set[str]() if knotted else knotted_columns(plan)
    return [
        one
        for name, one in explaining_columns(plan).items()
        if isinstance(one, Range) and not one.is_binary and name not in left_out
    ]


def knotted_columns(plan: Plan) -> set[str]:
    """Columns of splines: typical values leave out rows of them, and the knots stay over the declared range."""
    return plan.design.parsed.knotted_columns if isinstance(plan.design, DesignSpec) else set()


def lacks_splines(results: ReleasedModel) -> bool:
    """Whether splines alone lack errors, besides the intercept: typical values do not help them."""
    if not results.has_errors:
        return False
    blank, knotted = ~np.isfinite(results._inference.se), knotted_columns(results.plan)
    columns = [term_columns(results, one.name) for one in fitted_last(results).terms if blank[one.columns].any()]
    return any(columns) and all(knotted.issuperset(names) for names in columns)


def fills_ranges(plan: Plan) -> bool:
    """Whether the declarations say that numbers that explain fill their intervals: by typical values or bought ones."""
    known = [one.typical is not None or one.inner is not None for one in explaining_ranges(plan)]
    return isinstance(plan.design, DesignSpec) and all(known)


def favourable_columns(plan: Plan, *, not_collinear: bool = True) -> str:
    """What a forecast for usual rows supposes of the columns, in words."""
    ranges, many = explaining_ranges(plan), has_many_columns(plan) and plan.screening is None
    apart = " are hardly correlated (below about .1)" if many else " are not collinear" * not_collinear
    if not (ranges or explaining_columns(plan)) or any(one.typical is None for one in ranges):
        return "columns fill their ranges" + f" and{apart}" * bool(apart)
    known = "numbers are as their typical values say" if ranges else "levels are common"
    return known + f" and columns{apart}" * bool(apart)


def unknown_fit(results: ReleasedModel) -> str:
    """That the fit of the whole model was paid for and noise hides it; else empty."""
    hidden = [] if results.fit_sums is None else hidden_shares(results)
    return "".join(f" Noise hides {SHARE_WORDS[name]}." for name in hidden)


def hidden_shares(results: ReleasedModel) -> list[str]:
    """The explained shares that are unknown, or whose interval is as wide as all that a share can be."""
    errors = results.fitstats["std_error"]
    return [name for name in SHARE_WORDS if name in errors.index and not errors[name] <= WIDEST_SHARE]


def hiding_note(results: ReleasedModel) -> str:
    """Which terms hide other coefficients, and what to do about them; empty where they do not hide many.

    Of a spline one is enough: it often hides a few, and the other ways to more of them do not help. Numbers of typical
    values or of a bought interval fill it, and are not the cause; nor is any where the rows are too few for columns
    that fill their ranges, unless nearly all others would have an error without it.
    """
    numbers, factors, hidden, blank, basis = hiding_terms(fitted_last(results), results._inferred)
    named = numbers + factors
    others = len(results._fitted_columns) - len(named) - 1  # but for the intercept
    least = 1 if basis or others == 1 else max(2, LEAST_HIDDEN * len(results._fitted_columns))
    if few_rows_note(results):
        least = max(2, NEARLY_ALL * others)
    if (
        not 1 <= len(named) <= MOST_HIDING
        or len(hidden) < least
        or any(fills_interval(results, one) for one in numbers)
    ):
        return ""
    one = len(named) == 1
    columns = set[str]().union(*(term_columns(results, number) for number in numbers))
    declared = explaining_columns(results.plan)
    inner = any(getattr(declared.get(name), "inner", None) for name in columns - {*narrowed_columns(results.plan)})
    narrower = f" or {phrase('inner=', shell='inner interval')}" * inner
    ranges = (
        f"a range{narrower} that its values fill" if len(numbers) == 1 else f"ranges{narrower} that their values fill"
    )
    typical = phrase("typical=(mean, sd)", shell="typical values")
    knots = [bool(knotted_columns(results.plan).intersection(term_columns(results, one))) for one in numbers]
    ways = [f"declare {ranges}"] * bool(numbers) + ["use fewer knots"] * any(knots)
    ways += [f"declare {typical}"] * (not all(knots))
    ways += ["merge rare levels"] if factors else []
    listed, verb = f"{', '.join(f'`{name}`' for name in named)}", "hides" if one else "hide"
    verb += "" if blank else ", or makes far wider," if one else ", or make far wider,"
    advice = joined(ways, "or")
    few = [str(results._fitted_names[place]) for place in hidden[:MOST_HIDDEN]]
    more = [f"{len(hidden) - len(few)} more"] if len(hidden) > len(few) else []
    return f"{listed} {verb} {joined([*few, *more])}: {advice}. {_purchase(results, columns)}"


def _purchase(results: ReleasedModel, columns: Iterable[str]) -> str:
    """The call that buys narrower ranges of columns, in a sentence; empty where there are none or eps is too small."""
    plan = results.plan
    if not isinstance(plan.design, DesignSpec) or plan.request.options.unit is not None:
        return ""
    undeclared = {*plan.bought} - {*plan.trimmed}
    open_names = narrowed_unasked(plan.design.parsed, plan.design.domain)
    names = [name for name in open_names if name in columns and name not in undeclared]
    rows = None if plan.counts is None else plan.counts.rows
    alone = BOUGHT_EPS if rows is None else eps_despite_zeros(max(rows, 1.0), plan.request.adjacency, 1)[1]
    eps = float(f"{len(names) * alone:.2g}")
    if not 0 < eps <= plan.request.eps:
        return ""
    bought = "a narrower range" if len(names) == 1 else "narrower ranges"
    call = purchase(names, f"{eps:g}", "domain", plan.request.adjacency)
    return phrase(f"Or buy {bought} before: {call}. ", shell="")


def fills_interval(results: ReleasedModel, term: str) -> bool:
    """Whether the spread of a column of a term is known: by typical values, or an interval that the fit bought.

    Of one that is hardly wider than the narrowest that is bought, the values may fill a small part; and of one that
    `inner=` declares, which may hold a long tail. Knots of a spline stay over the whole declared range.
    """
    plan = results.plan
    if not isinstance(plan.design, DesignSpec):
        return False
    names, bought = term_columns(results, term) - knotted_columns(plan), narrowed_columns(plan)
    return any(
        isinstance(one := plan.design.domain.get(name), Range)
        and (
            one.typical is not None
            or (name in bought and np.ptp(bought[name].inner or ()) > STILL_WIDE * (one.high - one.low))
        )
        for name in names
    )


def term_columns(results: ReleasedModel, term: str) -> set[str]:
    """The columns of the data that a term reads; of plain arrays none."""
    if not isinstance(results.plan.design, DesignSpec):
        return set()
    codes = {factor.code: factor.node for one in results.plan.design.parsed.terms for factor in one}
    return {name for code in term.split(":") if code in codes for name in columns_of(codes[code])}


def rare_references_note(results: ReleasedModel, suspects: Container[str] = ()) -> tuple[list[str], set[str]]:
    """Which factors would show more from another reference level, and the coefficients which that would show.

    Nothing of a factor of which all coefficients are `suspects`.
    """
    if not results.has_errors:
        return [], set()
    design, notes, cured = fitted_last(results), [], {"Intercept"}
    columns = {term.name: design.names[term.columns] for term in design.terms}
    for name in rare_references(design, results._inferred):
        if all(one in suspects for one in columns[name]):
            continue
        cured.update(columns[name])
        column = _factor_column(name)
        if results.plan.family.name in OF_PIECES and column in FIRST:
            notes.append(f"{FIRST[column]}, to see the others.")
            continue
        notes.append(
            f"{name} is measured from a level that is too rare for this budget. Name a frequent one as its reference, "
            f"as in C({column}, Treatment('a frequent level')), to see the others."
        )
    return notes, cured if notes else set()


def _of_rare_levels(results: ReleasedModel) -> set[str]:
    """The coefficients of levels that are rare for certain by their released weights."""
    design = fitted_last(results)
    return {
        design.names[column]
        for _, factor, rare in rare_levels(design, results._inferred, certain=True)
        for column in compress(factor.columns, rare[1:])
    }


def costly_references_note(results: ReleasedModel) -> list[str]:
    """Which factors have large errors only because their reference level is rare, and the call that mends it."""
    if not shows_errors(results):
        return []
    design = fitted_last(results)
    rare_terms, notes = set(rare_references(design, results._inferred)), []
    _, suspected = suspect_levels(results)
    columns = {term.name: design.names[term.columns] for term in design.terms}
    for name, place in costly_references(design, results._inferred).items():
        if name in rare_terms or suspected.issuperset(columns[name]):
            continue
        column = _factor_column(name)
        if results.plan.family.name in OF_PIECES and column in FIRST:
            notes.append(f"{FIRST[column]}, for smaller standard errors.")
            continue
        label = columns[name][place - 1].rpartition("[T.")[2].removesuffix("]")
        declared = getattr(results.plan.design, "domain", {}).get(column)
        values = declared.values if isinstance(declared, Levels) else ()
        level = next((value for value in values if str(value) == label), label)
        notes.append(
            f"{name} is measured from a rare level. From {label} most of its standard errors would be less than half "
            f"as large: C({column}, Treatment({level!r}))."
        )
    return notes


def _factor_column(name: str) -> str:
    """The column of a term such as g or C(g, Sum)."""
    return name.removeprefix("C(").partition(",")[0].rstrip(")")


def suspect_levels(results: ReleasedModel) -> tuple[list[str], set[str]]:
    """Of factors that lose rows, the declared levels that too few rows have, and the coefficients unknown for that.

    Levels are as in a note, with their factor; they are rare for certain by what was released.
    """
    plan, levels, names = results.plan, list[str](), set[str]()
    if not shows_errors(results) or plan.counts is None or plan.counts.rows is None:
        return levels, names
    variables, errors = formula_variables(plan.design), results.bse.to_numpy()
    losing = [one for name in plan.counts.losing if (one := variables.get(name)) is not None and one.factor is not None]
    if not losing:
        return levels, names
    rare, rare_names = rare_references(fitted_last(results), results._inferred), _of_rare_levels(results)
    for variable in losing:
        assert variable.factor is not None
        reference, *others = variable.levels
        columns = list(variable.factor.columns)
        if variable.name in rare:
            # All are measured from it, and the intercept is of its rows.
            columns, suspects = [variable.factor.base, *columns], [reference]
            unknown = np.ones(len(columns), dtype=bool)
        else:
            unknown = np.array([np.isinf(errors[at]) and plan.names[at] in rare_names for at in columns])
            suspects = list(compress(others, unknown))
        if 0 < len(suspects) <= max(len(others) - 1, 1):  # more are a matter of the budget
            levels += [f"{level!r} of {_factor_column(variable.name)}" for level in suspects]
            names.update(compress([plan.names[column] for column in columns], unknown))
    return levels, names


def suspects_note(results: ReleasedModel) -> list[str]:
    """Which levels to compare with the codebook first, where rows are lost to those that are not declared."""
    levels, _ = suspect_levels(results)
    if not levels:
        return []
    one = "it may be misspelt, or is rare" if len(levels) == 1 else "they may be misspelt, or are rare"
    return [
        f"Look first at the declared {joined(levels)}, which too few rows have for this budget: {one} "
        "and better merged with another."
    ]


def fitted_last(results: ReleasedModel) -> SubDesign:
    """The columns that have errors."""
    assert results.released is not None
    return SubDesign(results.plan.design, np.array(results.released.columns))


def wide_response_note(results: ReleasedModel) -> list[str]:
    """That the declared range of the response makes nearly all of the errors, although an interval of it was bought."""
    plan, design, released = results.plan, results.plan.design, results.released
    if not (isinstance(released, ReleasedSums) and isinstance(design, DesignSpec) and shows_errors(results)):
        return []
    errors, noise = results.bse.to_numpy(), sums_noise(plan, results.scaled_params, released)
    known = np.isfinite(errors)
    low, high = design.response.low, design.response.high
    bought, cap = plan.response, capped_at(plan)
    width, variance = high - low, results.fitstats["value"].get("scale", math.inf)
    if bought is not None:
        if cap is None or (bought.low, bought.high) == (low, high):
            return []
        # That of capped residuals: noise makes it larger, and the cap of a right range seldom is five times its root.
        width, variance = 2 * cap, results.scale
    fills = not width > WIDE_RANGE * math.sqrt(max(variance, 0.0))
    if fills or not known.any() or np.median(noise[known] / errors[known]) < MOSTLY_NOISE:
        return []
    if bought is not None:
        return [
            "The standard errors are nearly all privacy noise, which is proportional to the cap on residuals. The cap "
            f"follows from the bought interval of {design.response_name}, ({bought.low:g}, {bought.high:g}), which has "
            f"at least 1/32 of the declared range, ({low:g}, {high:g}): declare a narrower range."
        ]
    buys = f"{argument('response', 'bought')}, which buys an interval of it, or " * plan.request.open_method
    return [
        "The standard errors are nearly all privacy noise, which is proportional to the declared range of "
        f"{design.response_name}, ({low:g}, {high:g}): {buys}a narrower range helps."
    ]


def cut_points_note(results: ReleasedModel) -> list[str]:
    """That errors of cut-points are bounds (docs/proofs/ordinal, 3)."""
    design, released = results.plan.design, results.released
    spread = released.spread if isinstance(released, Information) else None
    if not (isinstance(design, DesignSpec) and design.cut_points and isinstance(spread, ModelSpread)):
        return []
    wide = math.sqrt(spread.phi * len(design.cut_points)) if shows_errors(results) else 1.0
    if wide < 1.05:
        return []
    robust = argument("inference", "robust")
    return [f"Standard errors of cut-points are too large, by up to {wide:.2g} times; those of {robust} are not."]
