"""The public calls: a formula, a frame, a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, cast, overload

from dpstats.arguments import check_flag, explain_calls, is_number, safe_repr
from dpstats.call import (
    ChargeKeywords,
    DomainLike,
    ModelKeywords,
    PlanKeywords,
    RowKeywords,
    expand_signature,
    make_request,
    split_kwargs,
)
from dpstats.data import as_table
from dpstats.errors import ArgumentError
from dpstats.families import Binomial, Family, Gaussian, HuberSVM, Poisson, Quantile, SmoothSVM
from dpstats.families.gaussian import capped
from dpstats.formula.syntax import absorbed_factor
from dpstats.ledger import with_domain
from dpstats.models.absorbed import fit_absorbed, plan_absorbed
from dpstats.models.glm import DryRun, fit_source
from dpstats.models.groups import GroupPlan, fit_groups, plan_groups
from dpstats.models.multinomial import fit_multinomial, plan_multinomial
from dpstats.models.quantiles import QuantilePlan, check_quantiles, fit_quantiles, plan_quantiles
from dpstats.models.sources import FormulaSource, model_formula
from dpstats.plan import Plan
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.groups import GroupResults
from dpstats.results.multinomial import MultinomialPlan, MultinomialResults
from dpstats.results.quantiles import QuantileResults
from dpstats.results.stored import Released, load_any
from dpstats.wording import argument

SVM_LOSSES: dict[str, type[HuberSVM | SmoothSVM]] = {"huber": HuberSVM, "smooth": SmoothSVM}
"""The rounded hinges by the name that `svm` takes."""


@overload
def glm(  # type: ignore[overload-overlap]
    formula: str,
    data: object,
    eps: float,
    *,
    family: Literal["multinomial"],
    by: None = None,
    shrink: bool = ...,
    **arguments: Unpack[ModelKeywords],
) -> MultinomialResults: ...


@overload
def glm(
    formula: str,
    data: object,
    eps: float,
    *,
    family: str | Family = ...,
    by: None = None,
    shrink: bool = ...,
    **arguments: Unpack[ModelKeywords],
) -> GLMResults: ...


@overload
def glm(
    formula: str,
    data: object,
    eps: float,
    *,
    family: str | Family = ...,
    by: str,
    shrink: bool = ...,
    **arguments: Unpack[ModelKeywords],
) -> GroupResults: ...


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def glm(
    formula: str,
    data: object,
    eps: float,
    *,
    family: str | Family = "gaussian",
    by: str | None = None,
    shrink: bool = False,
    **arguments: Unpack[ModelKeywords],
) -> GLMResults | MultinomialResults | GroupResults:
    """Fit a generalised linear model with differential privacy.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ x1 + C(group) + bs(age, df=4)"``, ``"y ~ x + offset(np.log(t))"`` or, for counts of a binomial
        family, ``"successes + failures ~ x"``. ``"y ~ x | firm"`` absorbs the effects of a column's values, of which
        nothing is declared (docs/guide/absorbed); the result is then `AbsorbedResults`, and only ``unit=`` of that
        column, ``radius=``, ``subset=`` and what a charge takes go with it.
    data : DataFrame or another table, or path
        The private rows: a pandas or polars DataFrame, an Arrow table or a dict of columns; a source that is read in
        batches (a polars LazyFrame, an Arrow reader or dataset, or a DuckDB relation); a Dask DataFrame, on its cluster
        (docs/guide/clusters); or the path or pattern of Parquet or CSV files (docs/guide/files). Column names and types
        are public; cells and the number of rows are private.
    eps, delta : float
        The budget of this call.
    family : str or Family
        "gaussian", "binomial", "poisson", "negative_binomial", "quantile", "huber_svm", "smooth_svm", or an object of
        ``dp.families``. "multinomial" is for three levels or more, by the proof in docs/proofs/multinomial
        (docs/guide/multinomial).
    by : str, optional
        A column whose levels the Domain declares: one fit in the rows of each level, under one charge of eps for all,
        since a row is in one group at most (docs/guide/groups).
    shrink : bool
        With `by`: pool the groups, as far as noise and sampling errors ask for. A part of eps buys a fit of all rows.
    method : {"auto", "napp", "objective", "output", "statistics", "posterior"}
        Where the noise is added (docs/guide/methods); `compare` ranks the methods. "auto" is "napp", or "statistics"
        for least squares with standard errors where intervals are expected narrower.
    penalty, alpha : str or Penalty, float
        ``penalty="ridge", alpha=2.0`` or ``penalty=dp.penalties.Ridge(2.0)``; acts on the sum of the losses and the
        scaled coefficients. ``penalty="lasso"`` alone chooses alpha as `lasso` does.
    domain : Domain or dict, optional
        Public ranges and levels: ``dict(age=(17, 90), sex=["F", "M"])``. Ranges of numeric columns left out are bought
        with a share of eps; levels must be declared. By default the Domain that the ledger keeps.
    adjacency : {"add_remove", "replace_one"}
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.
    allow_uncertified : bool
    memory : float, optional
        Bytes of memory for rows in model units, by default half of the machine's memory. More rows are kept in a file
        without a name and read again in every pass (docs/guide/files). It does not change the release.
    weights : str, optional
        A column of weights, or an expression of columns, as in a survey (docs/guide/weights). They are divided by the
        upper end of their declared range, so a row counts at most once; a row is dropped if its weight is missing or
        not positive. Standard errors are then robust.
    offset : str, optional
        A column, or an expression of columns, that is added to the linear predictor. It costs no privacy.
    exposure : str, optional
        A positive column or expression whose logarithm is added, for Poisson models.
    subset : str, optional
        A condition on columns, such as ``"(age >= 18) & (sex == 'F')"``. Other rows are left out, as are rows with a
        missing cell. Cells are clipped to their range first.
    engine : {"dask"}, optional
        Read files on the workers of the Dask cluster of this process (docs/guide/clusters). A Dask frame is always read
        there.
    label, analyst : str, optional
        The title of the entry in the ledger, and the analyst who makes it.
    **options
        ``inference``: standard errors, tests and intervals. With "auto", the default, the number of rows or of persons
        decides whether there are any (docs/guide/standard_errors); ``True``, "model" or "robust" pay for them for any
        family; None leaves them out. ``unit``: the column that identifies persons, for a
        guarantee for persons with all their rows (docs/guide/persons). ``curvature``, ``radius``, ``range_share``,
        ``screen``, ``split`` and others: see `dpstats.call.Options`.

    Returns
    -------
    GLMResults
        ``params`` as released, which `predict` uses; with inference also ``debiased``, to which errors, tests and
        intervals refer. MultinomialResults for ``family="multinomial"``; with `by` a GroupResults, a mapping from
        levels to GLMResults.

    See Also
    --------
    plan : the same without data, free of charge.
    evaluate : measures of the fit, for a separate budget.

    Notes
    -----
    The guarantee is proved in docs/proofs/objective; it covers everything that leaves this call.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.glm("y ~ x", rows, eps=1.0, domain=domain)
    >>> print(fit.guarantee)
    eps=1, add_remove, certified
    >>> list(fit.params.index)
    ['Intercept', 'x']
    """
    formula, absorbed = absorbed_factor(formula)
    check_groups(by, shrink, alone=absorbed is not None or is_named(family, "multinomial"))
    if absorbed is not None:
        # The text of a formula has no type: this is AbsorbedResults, which has the names that GLMResults has.
        return cast(Any, fit_absorbed(formula, absorbed, data, eps, family, **arguments))
    if is_named(family, "multinomial"):
        return fit_multinomial(formula, data, eps, arguments)
    domain, engine = arguments.pop("domain", None), arguments.pop("engine", None)
    row_terms, charge, settings = split_kwargs(arguments, RowKeywords, ChargeKeywords)
    charge["ledger"], domain = with_domain(charge.get("ledger"), domain)
    table, request = as_table(data, engine), make_request(eps=eps, family=family, **settings)
    source = FormulaSource(model_formula(formula, family, **row_terms), table, domain)
    if by is not None:
        return fit_groups(plan_groups(source, request, by, shrink), table, **charge)
    return fit_source(source, request, **charge)


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def ols(
    formula: str, data: object, eps: float, *, residual_cap: float | None = None, **arguments: Unpack[ModelKeywords]
) -> GLMResults:
    """Least squares, with residuals beyond a public cap counted linearly: `glm` with family="gaussian".

    Parameters
    ----------
    residual_cap : float, optional
        In units of the response; see `dpstats.families.Gaussian`.
    **arguments
        As for `glm`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> dp.ols("y ~ x", rows, eps=1.0, domain=domain)
    <GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>
    """
    return glm(formula, data, eps, family=Gaussian(residual_cap), **_without_family(arguments))


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def logit(formula: str, data: object, eps: float, **arguments: Unpack[ModelKeywords]) -> GLMResults:
    """Logistic regression: `glm` with family="binomial".

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.integers(0, 2, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> dp.logit("y ~ x", rows, eps=1.0, domain=domain)
    <GLMResults: binomial, y ~ x; eps=1, add_remove, certified>
    """
    return glm(formula, data, eps, family=Binomial(), **_without_family(arguments))


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def poisson(
    formula: str,
    data: object,
    eps: float,
    *,
    mean_cap: float | None = None,
    y_max: float | None = None,
    **arguments: Unpack[ModelKeywords],
) -> GLMResults:
    """Poisson regression with a log link: `glm` with family="poisson".

    Parameters
    ----------
    mean_cap, y_max : float, optional
        Caps on the expected and on the observed counts; see `dpstats.families.Poisson`.
    **arguments
        As for `glm`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.poisson(2, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 20)}
    >>> dp.poisson("y ~ x", rows, eps=1.0, domain=domain)
    <GLMResults: poisson, y ~ x; eps=1, add_remove, certified>
    """
    return glm(formula, data, eps, family=Poisson(mean_cap, y_max), **_without_family(arguments))


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def svm(
    formula: str,
    data: object,
    eps: float,
    *,
    loss: str = "huber",
    h: float = 0.5,
    **arguments: Unpack[ModelKeywords],
) -> GLMResults:
    """A linear support vector machine: `glm` with family="huber_svm" or "smooth_svm".

    The response has two values: 0 and 1, or two levels of the Domain, of which the second is the positive class.
    ``predict(newdata, which="class")`` gives the level, ``which="decision"`` the decision function.

    Parameters
    ----------
    loss : {"huber", "smooth"}
        Rounding of the hinge's corner: a parabola, or a smoother curve with a second derivative everywhere.
    h : float
        Half-width of the hinge's rounded part.
    **arguments
        As for `glm`; ``method="output"`` adds the noise to the optimum.

    Raises
    ------
    ArgumentError
        If `loss` is unknown, and as for `glm`.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.integers(0, 2, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.svm("y ~ x", rows, eps=1.0, domain=domain)
    >>> sorted(set(fit.predict({"x": [0.1, 0.9]}, which="class")) - {0.0, 1.0})
    []
    """
    if not isinstance(loss, str) or loss not in SVM_LOSSES:
        raise ArgumentError(f"loss must be one of {list(SVM_LOSSES)}, got {safe_repr(loss)}")
    return glm(formula, data, eps, family=SVM_LOSSES[loss](h), **_without_family(arguments))


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords)
def quantreg(
    formula: str,
    data: object,
    eps: float,
    q: float | Sequence[float] = 0.5,
    *,
    h: float | None = None,
    **arguments: Unpack[ModelKeywords],
) -> GLMResults | QuantileResults:
    """Quantile regression: `glm` with family ``dp.families.Quantile(q, h)``, or several quantiles under one charge.

    Parameters
    ----------
    q : float or sequence of float
        The quantile, or several that rise, such as ``[0.1, 0.5, 0.9]``. They share eps: the number of rows, bought
        ranges, and where the response lies are paid for once.
    h : float, optional
        Width of the loss's rounded corner, in units of the response; see `dpstats.families.Quantile`. By default it
        follows the spread of the response, which 3 % of eps buys, and the number of rows.
    **arguments
        As for `glm`. Standard errors are robust.

    Returns
    -------
    GLMResults
        Of one quantile.
    QuantileResults
        Of several; its predictions do not cross.

    Raises
    ------
    ArgumentError
        If `q` or `h` is not usable, and as for `glm`.

    Notes
    -----
    The slope of the loss is at most max(q, 1 - q), so noise does not grow with the range of the response. Proofs:
    docs/proofs/families, docs/proofs/quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> dp.quantreg("y ~ x", rows, eps=1.0, domain=domain)
    <GLMResults: quantile, y ~ x; eps=1, add_remove, certified>
    """
    given = _without_family(arguments)
    if is_number(q):
        return glm(formula, data, eps, family=Quantile(q, h), **given)
    quantiles = check_quantiles(q)
    domain, engine = given.pop("domain", None), given.pop("engine", None)
    row_terms, charge, settings = split_kwargs(given, RowKeywords, ChargeKeywords)
    charge["ledger"], domain = with_domain(charge.get("ledger"), domain)
    source = FormulaSource(model_formula(formula, Quantile(), **row_terms), as_table(data, engine), domain)
    return fit_quantiles(source, plan_quantiles(source, quantiles, h, eps, **settings), **charge)


@explain_calls()
@expand_signature(PlanKeywords)
def plan_quantreg(
    formula: str,
    domain: DomainLike,
    eps: float,
    q: Sequence[float],
    *,
    h: float | None = None,
    **arguments: Unpack[PlanKeywords],
) -> QuantilePlan:
    """What `quantreg` of several quantiles would release and what it would cost; reads no data and spends nothing.

    One quantile is planned by `plan` with ``family=dp.families.Quantile(q, h)``.

    Returns
    -------
    QuantilePlan

    Raises
    ------
    ArgumentError, FormulaError, DomainError
        As for `quantreg`.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.plan_quantreg("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0, q=[0.25, 0.75])
    <QuantilePlan: y ~ x, q = 0.25, 0.75; eps=1, add_remove, certified>
    """
    row_terms, settings = split_kwargs(arguments, RowKeywords)
    source = FormulaSource(model_formula(formula, Quantile(), **row_terms), None, domain)
    return plan_quantiles(source, check_quantiles(q), h, eps, **settings)


@hide_frames
@explain_calls()
@expand_signature(ModelKeywords, without=("penalty", "alpha"))
def lasso(
    formula: str,
    data: object,
    eps: float,
    *,
    alpha: float | Literal["auto"] = "auto",
    family: str | Family = "gaussian",
    residual_cap: float | None = None,
    **arguments: Any,
) -> GLMResults:
    """A sparse fit: `glm` with penalty="lasso".

    It keeps columns for prediction, and many of them have no effect. `glm` with screen=k, split="rows" and
    inference=True tests which columns have one.

    Parameters
    ----------
    alpha : float or "auto"
        Weight of sum |t| on the sum of the losses and the scaled coefficients. "auto" chooses it from the noise and, as
        far as it is public, from the number of rows.
    residual_cap : float, optional
        Of family="gaussian", in units of the response; see `dpstats.families.Gaussian`.
    **arguments
        As for `glm`, the family included.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.lasso("y ~ x", rows, eps=1.0, alpha=50.0, domain=domain)
    >>> list(fit.selection.columns)
    ['coef', 'weight', 'threshold']
    """
    if "penalty" in arguments:
        raise ArgumentError("penalty is fixed by this function; use dp.glm to choose it")
    family = family if residual_cap is None else capped(residual_cap, family)
    return glm(formula, data, eps, penalty="lasso", alpha=alpha, family=family, **arguments)


@overload
def plan(  # type: ignore[overload-overlap]
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    family: Literal["multinomial"],
    by: None = None,
    shrink: bool = ...,
    **arguments: Unpack[PlanKeywords],
) -> MultinomialPlan: ...


@overload
def plan(
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    family: str | Family = ...,
    by: None = None,
    shrink: bool = ...,
    **arguments: Unpack[PlanKeywords],
) -> Plan: ...


@overload
def plan(
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    family: str | Family = ...,
    by: str,
    shrink: bool = ...,
    **arguments: Unpack[PlanKeywords],
) -> GroupPlan: ...


@explain_calls()
@expand_signature(PlanKeywords)
def plan(
    formula: str,
    domain: DomainLike,
    eps: float,
    *,
    family: str | Family = "gaussian",
    by: str | None = None,
    shrink: bool = False,
    **arguments: Unpack[PlanKeywords],
) -> Plan | MultinomialPlan | GroupPlan:
    """What `glm` with these arguments would release and what it would cost; reads no data and spends nothing.

    Columns that the Domain leaves out are assumed to be numeric, and their range is bought.

    Returns
    -------
    Plan
        MultinomialPlan for ``family="multinomial"``; with `by` a GroupPlan.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": (0, 1)}, eps=1.0)
    >>> plan
    <Plan: gaussian, y ~ x; eps=1, add_remove, certified>
    >>> list(plan.budget["eps"].round(2))
    [0.03, 0.96, 0.01, 1.0]
    """
    formula, absorbed = absorbed_factor(formula)
    check_groups(by, shrink, alone=absorbed is not None or is_named(family, "multinomial"))
    if absorbed is not None:
        return cast(Any, plan_absorbed(formula, absorbed, None, domain, eps, family, **arguments))
    if is_named(family, "multinomial"):
        return plan_multinomial(formula, domain, eps, arguments)
    row_terms, settings = split_kwargs(arguments, RowKeywords)
    request = make_request(eps=eps, family=family, **settings)
    source = FormulaSource(model_formula(formula, family, **row_terms), None, domain)
    if by is not None:
        return plan_groups(source, request, by, shrink)
    return DryRun(source, request).plan()


def is_named(family: object, name: str) -> bool:
    """Whether a family is a name and this one; an array is neither."""
    return isinstance(family, str) and family == name


def check_groups(by: str | None, shrink: bool, *, alone: bool) -> None:
    """Raise ArgumentError if groups are to be pooled and there are none, or the model is not offered by group."""
    if check_flag("shrink", shrink) and by is None:
        raise ArgumentError(f"shrink pools groups: name their factor too, as in {argument('by', 'region')}")
    if by is not None and alone:
        raise ArgumentError("by is not offered with an absorbed factor or several classes; leave it out")


def _without_family(arguments: ModelKeywords) -> ModelKeywords:
    """Keyword arguments for `glm`, which must not choose the family again."""
    if "family" in arguments:
        raise ArgumentError("family is fixed by this function; use dp.glm to choose it")
    return arguments


def load(path: str | Path) -> Any:
    """What a result's ``save(path)`` wrote: a fit, an evaluation, a check, released statistics and so on.

    Parameters
    ----------
    path : str or Path
        Of the JSON file, which says what kind of result it holds.

    Returns
    -------
    GLMResults, Evaluation or another result
        Of the class that was saved; ``dp.GLMResults.load(path)`` and its like demand theirs.

    Raises
    ------
    DataError
        If there is no such file, or no result wrote it.

    Examples
    --------
    >>> import tempfile
    >>> import dpstats as dp
    >>> rows = {"x": [0.2, 0.9, 0.4], "y": [0, 1, 1]}
    >>> fit = dp.logit("y ~ x", rows, 1.0, domain={"x": (0, 1), "y": [0, 1]}, seed=1)
    >>> fit.save(path := f"{tempfile.mkdtemp()}/fit.json")
    >>> dp.load(path).params.equals(fit.params)
    True
    """
    return load_any(path, _released_kind)


def _released_kind(name: str) -> type[Released]:
    """The class of results of that name; KeyError if there is none."""
    if name == "StreamResults":  # imported on first use
        from dpstats.streaming.results import StreamResults

        return StreamResults
    kinds = [Released]
    for kind in kinds:  # which grows
        kinds += kind.__subclasses__()
    return {kind.__name__: kind for kind in kinds}[name]
