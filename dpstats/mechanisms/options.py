"""Settings of a fit beyond its named arguments, checked; every one is public."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypedDict

from dpstats.arguments import OTHER_ARGUMENTS, check_choice, is_number, is_whole, safe_repr
from dpstats.cached import cached_property
from dpstats.errors import ArgumentError
from dpstats.families.base import CAPS
from dpstats.mechanisms.release import MOST_COVERED, ROWS_AT_MOST
from dpstats.privacy.guarantee import Unit, make_unit
from dpstats.privacy.ranges import ROWS_AT_LEAST
from dpstats.wording import argument, phrase

ROWS_GUESS = 10_000
"""The number of rows that a default curvature is chosen for unless another is guessed."""

CURVATURES = (1e-100, 1e100)
"""A curvature lies between these: squares of it are normal floats."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "stages": (1, 2, "auto"),
    "realization": ("analytic", "augmented"),
    "selection": (None, "auto", "noise_aware", "vs", "vs+"),
    "retrieval": ("recycle", "return", "paper", None),
    "moor": (None, "paper"),
    "noise": (None, "laplace", "gaussian"),
    "ranges": (None, "declared", "bought"),
    "response": ("auto", "bought", "declared"),
    "inference": ("auto", "model", "robust", True, None),
    "split": (None, "rows"),
    "on_mismatch": ("stop", "go"),
}

SHARES = ("range_share", "response_share", "release_share", "first_stage_share", "screen_share", "selection_level")

REQUIREMENTS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (
        ("curvature",),
        lambda one: one is None or (is_number(one) and CURVATURES[0] <= one <= CURVATURES[1]),
        "be a positive number from 1e-100 to 1e100",
    ),
    (("radius",), lambda one: one is None or (is_number(one) and one > 0), "be a positive finite number"),
    (SHARES, lambda one: is_number(one) and 0 < one < 1, "lie strictly between 0 and 1"),
    (("rows_at_most",), lambda one: is_number(one) and 1 <= one <= MOST_COVERED, "be a number from 1 to 1e10"),
    (("rows_at_least", "rows_guess"), lambda one: is_number(one) and one > 0, "be a positive finite number"),
    (("refit_share",), lambda one: is_number(one) and 0 <= one < 1, "lie in [0, 1)"),
    (
        ("screen",),
        lambda one: one is None or (is_whole(one) and one >= 1),
        "be a positive whole number of terms to keep",
    ),
    (
        ("information_share", "spread_share"),
        lambda one: one is None or (is_number(one) and 0 < one < 1),
        "lie strictly between 0 and 1",
    ),
    (
        ("fitstats",),
        lambda one: one in (None, "auto") or (is_number(one) and 0 <= one < 1),
        "be a share of eps below 1, 'auto' or None",
    ),
    (("fitstats_by",), lambda one: one is None or isinstance(one, str), "be the name of a factor"),
    (("focus",), lambda one: one is None or isinstance(one, str), "be the name of a factor of two levels"),
    (
        ("information_cap",),
        lambda one: one is None or (is_number(one) and CAPS[0] <= one <= CAPS[1]),
        f"be a positive number from {CAPS[0]:g} to {CAPS[1]:g}",
    ),
    (
        ("check_share",),
        lambda one: one is None or (is_number(one) and 0 <= one < 1),
        "be 0, for no count of rows, or below 1",
    ),
    (
        ("n",),
        lambda one: one is None or (is_number(one) and one > 0),
        "be a positive number, a public guess at the number of rows",
    ),
)
"""Which values some options take, and how a message says so."""

LATER: dict[str, Any] = {
    "check_share": 0,
    "on_mismatch": "stop",
    "n": None,
    "ranges": None,
    "information_cap": None,
    "fitstats": None,
    "fitstats_variables": None,
    "fitstats_by": None,
    "focus": None,
}
"""Options that came after plans had been stored, and what those plans had of them."""

Variables = str | Sequence[str] | Mapping[str, float | None] | None
"""Variables of a formula as a caller names them, with the steps of numbers."""

NamedVariables = tuple[tuple[str, float | None], ...]

ARGUMENTS = ("alpha", "adjacency", "delta", "domain", "family", "ledger", "method", "penalty", "seed")
"""Named arguments of a fit that a misspelt option may have meant."""


def not_offered() -> dict[str, str]:
    """What users of statsmodels or scikit-learn may look for, and what there is instead."""
    place = phrase(" to dp.glm, dp.plan or GLM.from_formula", shell="")
    weights = f"weights belong to the model: pass {argument('weights', 'w')}, the name of a column,{place}"
    offset = f"an offset belongs to the model: pass the name of a column{place}"
    kinds = {"mean_cap": "Poisson", "residual_cap": "Gaussian", "y_max": "Poisson"}
    calls = {"Poisson": "poisson", "Gaussian": "ols"}
    belongs = {
        name: "it belongs to the family, as in "
        + phrase(f"family=dp.families.{kind}({name}=4) or dp.{calls[kind]}(..., {name}=4)", shell=argument(name, 4))
        for name, kind in kinds.items()
    }
    return {
        **dict.fromkeys(("offset", "exposure"), offset),
        **dict.fromkeys(("freq_weights", "var_weights", "weights"), weights),
        **belongs,
        "ledger": f"a plan spends nothing; pass {phrase('domain=ledger.domain', shell='a Domain')}",
        "missing": "rows with a missing cell are dropped, and their number is private",
        "link": "each family has one link: logit for 'binomial', log for 'poisson', identity for 'gaussian'",
        "cov_type": f"{argument('inference', 'robust')} has HC0 errors, and {argument('unit')} clustered errors",
        "l1_ratio": phrase("pass penalty=", shell="in Python, ") + "dp.penalties.ElasticNet(alpha, l1_ratio)",
    }


@dataclass(frozen=True)
class Options:
    """Settings beyond the named arguments of a fit.

    Attributes
    ----------
    curvature : float, optional
        Quadratic term added to the objective, per column, in model units, from 1e-100 to 1e100; chosen from public
        facts by default.
    radius : float, optional
        Guess at the norm of the coefficients in model units; the default curvature is chosen for it. With
        method="statistics" it is in the metric of the design and 1 by default: the largest distance of a prediction
        from the middle of the response's range, in half widths of the range.
    ranges : {None, "declared", "bought"}
        "bought" buys, for each numeric explanatory column, an interval within its declared range that holds nearly all
        rows. Rows outside it are left out, and the noise follows the interval (docs/proofs/trimming). With few rows the
        declared range stays, as it does for columns whose inner interval is declared. Columns left out of the Domain
        have their range bought in either case; with "bought", rows beyond it are left out instead of clipped. None, the
        default, buys intervals if the counted number of rows, or `n`, shows that they pay: if rows times eps is at
        least about 3,600 per column, for at most 0.07 of eps, and less with more rows (docs/proofs/trimming, 6). The
        Domain must then declare all ranges. "declared" never buys them.
    range_share : float
        Share of eps that buys the ranges of numeric columns left out of the Domain, and the intervals of
        ranges="bought", in equal parts; by default intervals cost no more than that.
    rows_at_least : float
        A public lower bound on the number of rows; a budget that cannot buy ranges of so many rows is refused. No
        guarantee depends on it.
    response : {"auto", "bought", "declared"}
        "bought" buys an estimate of where the response lies within its declared range: an interval that holds most of a
        continuous response, for centre, scale and residual cap; for counts, the greatest count and the mean
        (docs/proofs/purchases). "auto" does so for counts without caps, and for least squares with standard errors and
        no cap.
    response_share : float
        Share of eps that buys it. Least squares under "auto" spend at most .03.
    release_share : float
        Share of the eps of each release for the final discrete noise.
    rows_guess : float
        A public guess at the number of rows. The default curvature of method="output" is proportional to its cube root.
        No guarantee depends on it.
    rows_at_most : float
        A public bound on the number of rows, from 1 to 1e10. The final discrete noise is chosen to be negligible at
        this number of rows. It is not a limit: the guarantee always covers 1e7 rows, and usually far more
        (docs/proofs/release). If the guarantee is not proved for 1e10 rows, the plan states for how many it is; with
        method="posterior" and a delta, for the larger of `rows_at_most` and 1e7.
    penalty_weights : dict, optional
        Penalty weights by name of term or column; 0 leaves it unpenalised, as the intercept is by default.
    stages : {1, 2, "auto"}
        With two stages, a first release determines where the second one is shrunk (docs/proofs/two_stage). "auto" uses
        two stages for a penalty that is not convex, which has no guarantee in one, and one stage otherwise.
    first_stage_share : float
        The share of the budget for the first of two stages.
    selection : {None, "auto", "noise_aware", "vs", "vs+"}
        "auto" raises the lasso weight of each penalised column to at least the root mean square of its noise
        (docs/benchmarks_napp), because a weaker lasso selects noise. "noise_aware" adds a threshold to a sparse penalty
        that keeps false positives caused by noise below `selection_level` (docs/proofs/selection). The others replicate
        a paper and are not certified.
    selection_level : float
        Probability that noise alone selects any column.
    refit_share : float
        Share of the budget kept for a second, unpenalised fit of the selected columns; 0 for none.
    retrieval : {"recycle", "return", None, "paper"}
        Use of the budget that the joint bound retrieves from the classical split: less noise ("recycle"), a lower
        charge for noise of the classical scale ("return"), or none. "paper" replicates a paper and is not certified.
    realization : {"analytic", "augmented"}
        "augmented" appends noise rows and calls statsmodels' GLM; not certified.
    moor : {None, "paper"}
        "paper" replicates NAPP-ERM's iteration; not certified.
    noise : {None, "laplace", "gaussian"}
        The law of the noise. By default the one with the smaller bound in the plan: delta > 0 permits Gaussian noise
        but does not require it; Laplace noise leaves delta unspent.
    screen : int, optional
        The number of terms of the formula (columns of an array) to choose by a private screening. Only these are
        fitted; all other coefficients are zero. It suits wide designs in which few columns matter; if many do, a full
        fit is more accurate (docs/guide/screening). The intercept and terms of penalty weight 0 are always kept.
    screen_share : float
        The share of eps that pays for screening; the default comes from docs/benchmarks_inference.
    inference : {"auto", "model", "robust", True, None}
        Standard errors, intervals and tests (docs/guide/inference). With "auto" the number of rows decides, or of
        persons (`unit`), where they are counted or `n` is given: no errors, free ones, or ones that are paid for
        (`Plan.by_rows`). Elsewhere "auto" releases none for persons. For rows it releases the information matrix where
        it takes nothing from the budget of the coefficients: logistic regression, and Poisson regression with
        `mean_cap` below the largest count, whose dispersion then costs `spread_share`. The price is a curvature up to
        twice as large (docs/defaults). If eps is too small for that, only coefficients are released. True, or a kind,
        pays for the matrix for any family. "model" uses the variance of the response in the family, up to a dispersion
        (Gaussian and Poisson). "robust" does not rely on that variance; True means "robust" for a support vector
        machine, and so does "auto" with weights. None releases only coefficients.
    information_share : float, optional
        The price of the information matrix by itself, as a share of eps, if it is paid for (`inference=True` or a
        kind); together with the coefficients it costs less. Gaussian noise in the coefficients grows by the factor
        1 / (1 - share). The default depends on family and number of columns (docs/defaults).
    spread_share : float, optional
        Share of eps for the dispersion, or for the robust variances; 0.05 and 0.15 by default. A binomial family has
        neither unless inference is "robust".
    fitstats : float, "auto" or None
        Share of eps that buys fit statistics together with standard errors (docs/guide/results): the number of rows, R2
        or the deviance explained, and the averages for marginal effects. "auto" spends 0.05 where they are offered, and
        the plan states where they are not; 0 and None buy none. Plain least squares that is asked for them has
        ``inference=True`` too, and fits by the objective; without them it may release sums (docs/guide/summary).
    fitstats_variables : str, list of str or dict, optional
        Variables whose changes `comparisons` averages over the rows: a dict has the steps of numbers, ``{"age": 10,
        "sex": None}``, and a list steps of 1. They take two thirds of the share of fit statistics. By default every
        factor that stands by itself, with a quarter.
    fitstats_by : str, optional
        A factor of the formula by whose levels `comparisons` and `predictions` have averages too.
    focus : str, optional
        A randomised treatment: a factor of two levels that chance assigned, whatever else a row holds. Its coefficient
        alone has an interval, ``fit.focus()``, with far fewer rows or less eps than a whole table needs
        (docs/proofs/focus): 15 % of eps buys two sums of each arm in the place of standard errors.
    information_cap : float, optional
        The greatest weight of a row in the information matrix, whose noise is proportional to it. The weight of a row
        is its fitted mean for counts, and p (1 - p) for a logistic regression: use two to four times a typical weight,
        as far as that is public. The estimates are corrected for the cap (docs/proofs/inference). By default twice the
        bought mean of counts, and no cap elsewhere. It needs a formula with an intercept and without an offset.
    split : {None, "rows"}
        "rows" assigns each row at random to one of two parts. One part chooses columns (by a sparse penalty with
        `refit_share`, or by `screen`), the other fits them, and inference is valid for the columns chosen. Each part
        has the whole eps, since no row is in both, but fewer rows. With a unit, persons are assigned.
    unit : str, optional
        The column that identifies persons: the guarantee is then for persons with all their rows instead of single rows
        (docs/proofs/persons). Rows where it is missing are left out. It needs delta = 0.
    unit_weight : {None, "equal", "one"}
        "equal", the default: the rows of a person share the weight 1, for the noise of one row. "one": each row has the
        weight 1, for at most `max_rows` rows of a person.
    max_rows : int, optional
        The largest number of rows of a person; if there are more, they are drawn at random. The noise grows in
        proportion. Implies weights of one.
    check_share : float, optional
        Share of eps that counts rows before the rest is planned (docs/proofs/adaptive): the rows that the fit uses, and
        the rows that each column loses or clips. A third of it counts rows; under "replace_one" their number is public,
        and this third goes to the fit. With `unit` it counts persons with a usable row, and of rows lost or clipped one
        row of each person, drawn at random. By default 0.03 for a single fit of a formula by napp or statistics, also
        with an absorbed factor, and 0 for other methods, arrays, fits that share a budget, persons under "replace_one",
        and a given `n`.
    on_mismatch : {"stop", "go"}
        If a column certainly loses or clips more than a fifth of the rows, or has an undeclared level in more than a
        tenth (a response declared as 0 and 1 in more than half a per cent), or if the response is clipped in more than
        a tenth, "stop" raises MismatchError, and only the count is charged. So it does if the rows are so few that
        hardly any coefficient is expected to have a standard error which `inference` insists on; where their number is
        public, and known without reading a file or a query, that is refused before anything is charged. "go" fits all
        the same.
    n : float, optional
        A PUBLIC guess at the number of rows. With ``inference="auto"`` it decides how much of the budget goes to
        errors, in place of a private count of rows. Then no rows are counted, and a wrong Domain does not stop the fit,
        unless you pass `check_share`. Under "add_remove" never pass the actual number of the private rows. No guarantee
        depends on it.
    """

    curvature: float | None = None
    radius: float | None = None
    ranges: Literal["declared", "bought"] | None = None
    range_share: float = 0.1
    rows_at_least: float = ROWS_AT_LEAST
    rows_guess: float = ROWS_GUESS
    response: Literal["auto", "bought", "declared"] = "auto"
    response_share: float = 0.06
    release_share: float = 0.01
    rows_at_most: float = ROWS_AT_MOST
    penalty_weights: Mapping[str, float] | None = None
    stages: Literal[1, 2, "auto"] = 1
    first_stage_share: float = 0.35
    selection: Literal["auto", "noise_aware", "vs", "vs+"] | None = None
    selection_level: float = 0.05
    refit_share: float = 0.0
    retrieval: Literal["recycle", "return", "paper"] | None = "recycle"
    realization: Literal["analytic", "augmented"] = "analytic"
    moor: Literal["paper"] | None = None
    noise: Literal["laplace", "gaussian"] | None = None
    screen: int | None = None
    screen_share: float = 0.6
    inference: Literal["auto", "model", "robust", True] | None = "auto"
    information_share: float | None = None
    spread_share: float | None = None
    fitstats: float | Literal["auto"] | None = "auto"
    fitstats_variables: Variables = None
    fitstats_by: str | None = None
    focus: str | None = None
    information_cap: float | None = None
    split: Literal["rows"] | None = None
    unit: str | None = None
    unit_weight: Literal["equal", "one"] | None = None
    max_rows: int | None = None
    check_share: float | None = None
    on_mismatch: Literal["stop", "go"] = "stop"
    n: float | None = None

    def __post_init__(self) -> None:
        for names, suits, requirement in REQUIREMENTS:
            for name in names:
                if not suits(value := getattr(self, name)):
                    raise ArgumentError(f"{name} must {requirement}, got {safe_repr(value)}")
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        named_variables("fitstats_variables", self.fitstats_variables)
        weights = self.penalty_weights
        if weights is not None and not isinstance(weights, Mapping):
            raise ArgumentError("penalty_weights must be a dict from terms or columns to weights")
        for key, weight in (weights or {}).items():
            if not (is_number(weight) and weight >= 0):
                raise ArgumentError(f"penalty_weights[{key!r}] must be a finite number >= 0, got {safe_repr(weight)}")
        if self.record.column is not None and self.replicates:
            raise ArgumentError("unit is not part of the replicated paper, which protects rows; leave it out")

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Options:
        """The options of these names; ArgumentError for a name that is unknown, with what was probably meant.

        False is another spelling of None for ``inference``.
        """
        known = [item.name for item in fields(cls)]
        for name in given:
            if (instead := not_offered().get(name)) is not None:
                raise ArgumentError(f"{name} is not offered: {instead}")
            if name in OTHER_ARGUMENTS:
                raise ArgumentError(f"unknown option {name!r}; write {argument(OTHER_ARGUMENTS[name])}")
            if name not in known:
                near = difflib.get_close_matches(name, [*known, *ARGUMENTS], n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ArgumentError(f"unknown option {name!r}; {hint}options: {', '.join(known)}")
        return cls(**{**given, "inference": None} if given.get("inference") is False else given)

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON; of `LATER` ones what older plans had is left out: they keep their digests."""
        return {name: value for name, value in asdict(self).items() if name not in LATER or value != LATER[name]}

    @cached_property
    def record(self) -> Unit:
        """Whose data one record is."""
        return make_unit(self.unit, self.unit_weight, self.max_rows)

    @property
    def as_printed(self) -> bool:
        """Whether a setting asks for a paper's own constants and iteration, without a sound proof."""
        return self.moor == "paper" or self.retrieval == "paper" or self.selection in ("vs", "vs+")

    @property
    def replicates(self) -> bool:
        """Whether a setting leaves the certified path, for `dpstats.replication`."""
        return self.as_printed or self.realization == "augmented"


def named_variables(name: str, variables: object) -> NamedVariables | None:
    """Names of variables with the steps of numbers, None where none is given, of what a caller asks for."""
    if variables is None:
        return None
    given = [variables] if isinstance(variables, str) else variables
    if isinstance(given, Mapping):
        named: Sequence[tuple[Any, Any]] = list(given.items())
    elif isinstance(given, (list, tuple)):
        named = [(one, None) for one in given]
    else:
        named = []
    right = [
        isinstance(one, str) and (step is None or (is_number(step) and 0 < abs(step) <= 1e100)) for one, step in named
    ]
    if not named or not all(right) or len({one for one, _ in named}) < len(named):
        raise ArgumentError(
            f"{name} must be names of columns, or a dict from names to the steps of numbers such as "
            f"{{'age': 10, 'sex': None}}, got {safe_repr(variables)}"
        )
    return tuple((one, None if step is None else float(step)) for one, step in named)


class OptionKeywords(TypedDict, total=False):
    """The fields of `Options` as keywords of a call, for type checkers; a test holds the two together."""

    curvature: float | None
    radius: float | None
    ranges: Literal["declared", "bought"] | None
    range_share: float
    rows_at_least: float
    rows_guess: float
    response: Literal["auto", "bought", "declared"]
    response_share: float
    release_share: float
    rows_at_most: float
    penalty_weights: Mapping[str, float] | None
    stages: Literal[1, 2, "auto"]
    first_stage_share: float
    selection: Literal["auto", "noise_aware", "vs", "vs+"] | None
    selection_level: float
    refit_share: float
    retrieval: Literal["recycle", "return", "paper"] | None
    realization: Literal["analytic", "augmented"]
    moor: Literal["paper"] | None
    noise: Literal["laplace", "gaussian"] | None
    screen: int | None
    screen_share: float
    inference: Literal["auto", "model", "robust", True] | None
    information_share: float | None
    spread_share: float | None
    fitstats: float | Literal["auto"] | None
    fitstats_variables: Variables
    fitstats_by: str | None
    focus: str | None
    information_cap: float | None
    split: Literal["rows"] | None
    unit: str | None
    unit_weight: Literal["equal", "one"] | None
    max_rows: int | None
    check_share: float | None
    on_mismatch: Literal["stop", "go"]
    n: float | None
