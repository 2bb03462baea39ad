"""A released model of several classes: the plan, and coefficients against the first class (docs/proofs/multinomial)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats.arguments import check_choice, check_flag
from dpstats.cached import cached_property
from dpstats.data import Table, as_table
from dpstats.domain import Scalar
from dpstats.errors import ArgumentError, NotReleasedError
from dpstats.families.multinomial import Multinomial
from dpstats.formula.design import DesignSpec
from dpstats.frames import NotedFrame, WideFrame
from dpstats.inference import Inference
from dpstats.mechanisms.multinomial import ClassesStage, ReleasedClasses, classes_inference
from dpstats.plan.row_counts import RowCounts
from dpstats.plan.row_notes import counts_note, faults_line
from dpstats.plan.simulated import Simulated
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.quiet import quiet
from dpstats.results.contrasts import TESTED, as_ratios, inference_table, log_scale_note
from dpstats.results.stored import Printed, Released, guarantee_sentence, marked_title
from dpstats.summaries import Summary, format_number, format_range, full_width, paired_facts, shorten
from dpstats.wording import argument, phrase, sentence

Vector = NDArray[np.float64]

_QUALITY = "predict(newdata) has the probabilities of public rows, from which it follows for those"
_FITTED = "predict(newdata) has the probabilities of public rows; those of private rows are not protected"
_BY_COEFFICIENT = "conf_int() and pvalues speak of each coefficient"
_ROWS = "the number of rows is private: adjacency='replace_one' makes it public (nobs)"

NOT_RELEASED = {
    **dict.fromkeys(("df_resid", "n_obs"), _ROWS),
    **dict.fromkeys(
        ("aic", "bic", "deviance", "llf", "llnull", "llr", "llr_pvalue", "null_deviance", "prsquared", "pred_table"),
        _QUALITY,
    ),
    **dict.fromkeys(("fitted", "fittedvalues", "resid", "residuals", "resid_misclassified", "resid_response"), _FITTED),
    **dict.fromkeys(("cov_params", "normalized_cov_params", "t_test", "vcov", "wald_test"), _BY_COEFFICIENT),
}
"""What results of statsmodels or R have of classes and levels and these have not, and what there is instead."""


@dataclass(frozen=True, eq=False)
class MultinomialPlan(Simulated, Printed):
    """What a model of several classes will release and cost; a function of formula, Domain and options alone.

    Attributes
    ----------
    design : DesignSpec
        Columns and their bounds.
    stage : ClassesStage
        Curvature and noise of the fit.
    guarantee : Guarantee
        For everything the call releases.
    counts : RowCounts or None
        What counts the rows before the fit.

    Examples
    --------
    >>> import dpstats as dp
    >>> plan = dp.plan("y ~ x", {"x": (0, 1), "y": ["bus", "car", "rail"]}, eps=1.0, family="multinomial")
    >>> plan
    <MultinomialPlan: y ~ x, 3 classes; eps=1, add_remove, certified>
    >>> plan.classes, plan.names
    (('bus', 'car', 'rail'), ('Intercept', 'x'))
    >>> list(plan.budget["eps"].round(2))
    [0.03, 0.96, 0.01, 1.0]
    >>> "Private Multinomial Logit" in plan.summary().as_text()
    True
    >>> type(plan).from_dict(plan.to_dict()).names
    ('Intercept', 'x')
    """

    design: DesignSpec
    stage: ClassesStage
    guarantee: Guarantee
    call: Any = field(default=None, repr=False)
    counts: RowCounts | None = None

    @property
    def classes(self) -> tuple[Scalar, ...]:
        """The levels of the response, the first of which the others are compared with."""
        assert self.design.response.levels is not None
        return self.design.response.levels

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of each equation."""
        return self.design.names

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget is spent on, with the total."""
        stage, counting = self.stage, 0.0 if self.counts is None else self.counts.eps
        bought, most = stage.information is not None, (self.guarantee.eps - counting) / self.stage.cost
        lines = [
            *([("row counts", counting, "rows, rows at fault")] if counting else []),
            ("coefficients", most * stage.eps, "noise in the objective" + " and in the information" * bought),
            *([("cover", most * stage.cover_eps, "floating point of the information")] if bought else []),
            ("last step", most * stage.final.eps, "floating point"),
            ("total", self.guarantee.eps, ""),
        ]
        return WideFrame(pd.DataFrame(lines, columns=["purchase", "eps", "buys"]).set_index("purchase"))

    def fit(self, data: object, **arguments: Any) -> MultinomialResults:
        """Carry the plan out on private rows; ledger, seed, memory, engine, label and analyst as for `dpstats.glm`.

        Examples
        --------
        >>> rows = {"x": [0.2, 0.4, 0.7], "y": ["bus", "rail", "car"]}
        >>> plan.fit(rows)
        <MultinomialResults: y ~ x, 3 classes; eps=1, add_remove, certified>
        """
        engine = arguments.pop("engine", None)
        return self._call("fit").fit(data, engine, **arguments)

    @property
    def eps(self) -> float:
        """The total epsilon."""
        return self.guarantee.eps

    @property
    def coefficients(self) -> list[Any]:
        return [(level, name) for level in self.classes[1:] for name in self.names]

    def at(self, eps: float) -> MultinomialPlan:
        """The plan of the same call at another eps; reads no row and spends nothing.

        Examples
        --------
        >>> plan.at(2.0).eps
        2.0
        """
        return self._call("at").at(eps).plan()

    def _call(self, what: str) -> Any:
        if self.call is None:
            raise ArgumentError(f"{what} is for what dp.plan returns: dp.plan(formula, domain, eps, ...).{what}(...)")
        return self.call

    def __getattr__(self, name: str) -> Any:
        if name == "by_rows":
            raise NotReleasedError(
                "by_rows is not offered for plans of several classes, which are the same for every number of rows: "
                "standard_errors(n) forecasts errors"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def summary(self) -> Summary:
        """The model, its guarantee, what it costs, and the noise; as_text, as_html, as_latex and as_markdown."""
        rows = [(str(name), [format_number(line["eps"]), str(line["buys"])]) for name, line in self.budget.iterrows()]
        stage = self.stage
        facts = [format_number(stage.noise.scale), format_range(stage.noise_sd), format_range(stage.curvature)]
        tables = [
            _header(self, "private" if self.counts is None else self.counts.shown),
            full_width(["eps", "buys"], rows, [12, 44], title="Budget"),
            full_width(["scale", "s.d.", "curvature"], [("", facts)], [14, 20, 20], title="Noise in the objective"),
        ]
        notes = [
            guarantee_sentence(self.guarantee, "The release is"),
            "The curvature shrinks coefficients towards zero; both are in model units.",
            *([] if stage.information is not None else [_without_errors_note(self)]),
        ]
        return Summary(tables, [*notes, *self.design.notes])

    def to_dict(self) -> dict[str, Any]:
        """Plain public values, for JSON."""
        return {
            "design": self.design.to_dict(),
            "stage": self.stage.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            **({} if self.counts is None else {"counts": self.counts.to_dict()}),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> MultinomialPlan:
        """The plan whose `to_dict` gave `stored`."""
        design, stage = DesignSpec.from_dict(stored["design"]), ClassesStage.from_dict(stored["stage"])
        counts = None if "counts" not in stored else RowCounts.from_dict(stored["counts"])
        return cls(design, stage, Guarantee(**stored["guarantee"]), counts=counts)

    def __repr__(self) -> str:
        return f"<MultinomialPlan: {self.design.formula}, {len(self.classes)} classes; {self.guarantee}>"


def _header(plan: MultinomialPlan, observations: str) -> SimpleTable:
    """Facts on the model and on the guarantee."""
    guarantee, title = plan.guarantee, marked_title("Private Multinomial Logit", plan.guarantee)
    left = [
        ("Dep. Variable:", shorten(plan.design.response_name, 18)),
        ("Model:", "MNLogit"),
        ("Classes:", str(len(plan.classes))),
        ("Base Class:", shorten(plan.classes[0], 18)),
        ("Df Model:", str((len(plan.names) - plan.design.has_intercept) * (len(plan.classes) - 1))),
        ("Unit:", "row" if guarantee.unit is None else shorten(guarantee.unit, 18)),
    ]
    right = [
        ("Rows:" if guarantee.unit is None else "Persons:", observations),
        ("Adjacency:", guarantee.adjacency),
        ("Epsilon:", f"{guarantee.eps:.6g}"),
        ("Delta:", f"{guarantee.delta:.6g}"),
        ("Certified:", "yes" if guarantee.certified else "NO"),
        ("Proof:", cite_proof(guarantee.basis) if guarantee.certified else "none"),
    ]
    return paired_facts(title, left, right, width=16)


def errors_offered(plan: MultinomialPlan) -> str:
    """What buys standard errors of several classes, or which call has them where they are not offered."""
    if plan.guarantee.unit is not None or plan.design.weights is not None:
        given = argument("unit") if plan.guarantee.unit is not None else argument("weights")
        pair = phrase("dp.logit", shell="--family binomial")
        return f"standard errors of several classes are not offered with {given}: fit pairs of classes by {pair}"
    return f"standard errors of several classes are never free: {argument('inference', True)} pays for them"


def _without_errors_note(plan: MultinomialPlan) -> str:
    """What the reader of coefficients without errors must know."""
    return (
        f"Coefficients are shrunk towards zero, and their noise is not shown. {sentence(errors_offered(plan))} Do not "
        "read small differences without them."
    )


WITH_ERRORS_NOTE = (
    "Coefficients are bias-corrected for the shrinkage. Errors, intervals and tests hold sampling and the noise of "
    "privacy; a blank means that the budget does not identify the coefficient. predict uses shrunk coefficients."
)


class LevelPredictions:
    """Probabilities of the levels of a response."""

    @property
    def _levels(self) -> tuple[Scalar, ...]:
        """The levels of the response."""
        raise NotImplementedError

    def _level_shares(self, newdata: Table) -> Vector:
        """Their probabilities, shape (rows, K); NaN in rows that cannot be encoded."""
        raise NotImplementedError

    def predict(self, newdata: Any, which: str = "mean", **unknown: Any) -> Any:
        """Probabilities of the levels of new rows; post-processing of the released coefficients.

        Parameters
        ----------
        newdata : DataFrame or another table
            Numeric columns are clipped to the Domain's ranges, as in the fit.
        which : {"mean", "class"}
            Probabilities, or the most probable level.

        Returns
        -------
        DataFrame with a column for each level, or Series of levels
            Indexed as `newdata`; NaN for rows with a missing value or a level that is not declared.

        Raises
        ------
        ArgumentError
            If `which` is unknown.
        DataError
            If `newdata` lacks a column the formula needs.
        """
        if unknown:
            name = next(iter(unknown))
            raise ArgumentError(f"{name} is no argument of predict: which='mean' has probabilities, 'class' levels")
        check_choice("which", which, ("mean", "class"))
        table = as_table(newdata)
        shares = self._level_shares(table)
        if which == "mean":
            return WideFrame(pd.DataFrame(shares, index=table.index, columns=list(self._levels)))
        known = np.isfinite(shares).all(axis=1)
        likeliest = np.full(len(shares), np.nan, dtype=object)
        likeliest[known] = [self._levels[place] for place in shares[known].argmax(axis=1)]
        return pd.Series(likeliest, index=table.index, name="predicted")


@dataclass(frozen=True, eq=False)
class MultinomialResults(LevelPredictions, Released):
    """A released multinomial logit: an equation for each class but the first.

    Attributes
    ----------
    plan : MultinomialPlan
    scaled_params : ndarray, shape (K, p)
        Coefficients of every class in model units, of sum zero over the classes.
    nobs : int or None
        The number of rows where it is public (``adjacency="replace_one"``), else None.
    information : ndarray or None
        The released information in model units, if standard errors were paid for.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.choice(["bus", "car", "rail"], 2000)}
    >>> domain = {"x": (0, 1), "y": ["bus", "car", "rail"]}
    >>> fit = dp.glm("y ~ x", rows, eps=1.0, family="multinomial", domain=domain)
    >>> fit
    <MultinomialResults: y ~ x, 3 classes; eps=1, add_remove, certified>
    >>> fit.params.columns.tolist(), fit.params.index.tolist()
    (['car', 'rail'], ['Intercept', 'x'])
    >>> shares = fit.predict({"x": [0.2, None]})
    >>> shares.columns.tolist(), shares.sum(axis=1, skipna=False).round(6).tolist()
    (['bus', 'car', 'rail'], [1.0, nan])
    >>> paid = dp.glm("y ~ x", rows, eps=3.0, family="multinomial", domain=domain, inference=True)
    >>> paid.conf_int().shape, paid.bse.shape == paid.pvalues.shape == paid.debiased.shape
    ((4, 2), True)
    >>> fit.glance().loc[0, ["classes", "eps"]].tolist()
    [3.0, 1.0]
    >>> "y=rail" in fit.summary().as_text()
    True
    """

    plan: MultinomialPlan
    scaled_params: Vector
    nobs: int | None = None
    information: Vector | None = None

    not_released: ClassVar[Mapping[str, str]] = NOT_RELEASED

    @property
    def guarantee(self) -> Guarantee:
        """For everything that was released."""
        return self.plan.guarantee

    @cached_property
    def _inference(self) -> Inference:
        """Coefficients with their errors, class by class; NotReleasedError without the information."""
        if self.information is None:
            raise NotReleasedError(errors_offered(self.plan))
        with quiet():
            released = ReleasedClasses(self.scaled_params, self.information)
            return classes_inference(self.plan.stage, self.plan.design, released)

    def _by_class(self, values: Vector) -> pd.DataFrame:
        """What belongs to the coefficients, shape ((K - 1) p,), a column for each class but the first."""
        shaped = np.reshape(values, (len(self.classes) - 1, -1)).T
        return pd.DataFrame(shaped, index=list(self.plan.names), columns=list(self.classes[1:]))

    @property
    def debiased(self) -> pd.DataFrame:
        """Coefficients without the shrinkage: what errors, tests and intervals refer to."""
        return self._by_class(self._inference.coef)

    @property
    def bse(self) -> pd.DataFrame:
        """Standard errors, half-widths of 95 % intervals over 1.96; infinite where the budget identifies nothing.

        Raises
        ------
        NotReleasedError
            Unless they were paid for with ``inference=True``.
        """
        return self._by_class(self._inference.se)

    @property
    def tvalues(self) -> pd.DataFrame:
        """`debiased` over `bse`."""
        return self._by_class(self._inference.tvalues)

    @property
    def pvalues(self) -> pd.DataFrame:
        """p-values of the tests that coefficients are zero."""
        return self._by_class(self._inference.pvalues)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals of coverage 1 - alpha, a row for each class and term, as statsmodels' MNLogit has them."""
        index = pd.MultiIndex.from_product([list(self.classes[1:]), list(self.plan.names)])
        return pd.DataFrame(self._inference.conf_int(alpha), index=index, columns=["lower", "upper"])

    @property
    def classes(self) -> tuple[Scalar, ...]:
        """The levels of the response, the first of which the others are compared with."""
        return self.plan.classes

    @property
    def _levels(self) -> tuple[Scalar, ...]:
        return self.classes

    @property
    def params(self) -> pd.DataFrame:
        """Coefficients in the user's units, a column for each class but the first, as statsmodels' MNLogit has them."""
        matrix, _ = self.plan.design.back_transform()
        against = self.scaled_params[1:] - self.scaled_params[0]
        return pd.DataFrame(matrix @ against.T, index=list(self.plan.names), columns=list(self.classes[1:]))

    def _level_shares(self, newdata: Table) -> Vector:
        exog, complete = self.plan.design.exog(newdata)
        shares = np.full((len(exog), len(self.classes)), np.nan)
        with quiet():
            shares[complete] = Multinomial(len(self.classes)).mean(exog[complete] @ self.scaled_params.T)
        return shares

    def tidy(self, *, exponentiate: bool = False) -> pd.DataFrame:
        """A row for each coefficient, as R's broom has it: class, term, estimate, and its error.

        std_error, statistic, p_value, conf_low and conf_high are NaN where the fit did not pay for errors.

        Parameters
        ----------
        exponentiate : bool
            Odds ratios against the first class, exp(coef), with their intervals; std_error and statistic stay those of
            the coefficient, as in broom.

        Examples
        --------
        >>> fit.tidy().columns.tolist(), len(fit.tidy())
        (['y.level', 'term', 'estimate', 'std_error', 'statistic', 'p_value', 'conf_low', 'conf_high'], 4)
        """
        pairs = [(level, term) for level in self.classes[1:] for term in self.plan.names]
        table = pd.DataFrame(pairs, columns=["y.level", "term"])
        if self.information is None:
            table = table.assign(estimate=self.params.to_numpy().T.ravel()).reindex(columns=[*table, *TESTED])
        else:
            inference = self._inference
            low, high = inference.conf_int().T
            errors = {"std_error": inference.se, "statistic": inference.tvalues, "p_value": inference.pvalues}
            table = table.assign(estimate=inference.coef, **errors, conf_low=low, conf_high=high)
        frame = NotedFrame(as_ratios(table) if check_flag("exponentiate", exponentiate) else table)
        if exponentiate:
            frame.attrs["note"] = log_scale_note(frame)
        return frame

    def glance(self) -> pd.DataFrame:
        """One row of facts on the model; where rows were counted nobs is noisy, and nobs_std_error follows."""
        guarantee, counts = self.guarantee, self.plan.counts
        counted = None if self.nobs is not None or counts is None else counts.released_rows
        rows: dict[str, Any] = {"nobs": self.nobs}
        if counted is not None:
            rows = {"nobs": max(round(counted[0]), 0), "nobs_std_error": counted[1]}
        facts = {"classes": len(self.classes), **rows, "eps": guarantee.eps, "delta": guarantee.delta}
        return WideFrame([facts | {"adjacency": guarantee.adjacency, "certified": guarantee.certified}])

    def summary(self, *, full: bool = False) -> Summary:
        """A block of coefficients for each class but the first, as statsmodels' MNLogit has them; always `full`."""
        check_flag("full", full)
        response, paid = self.plan.design.response_name, self.information is not None
        table = self.tidy().set_index("term")
        blocks = []
        for level in self.classes[1:]:
            own, title = table[table["y.level"] == level].drop(columns="y.level"), f"{response}={level}"
            if paid:
                blocks.append(inference_table(own, title=title))
                continue
            with np.errstate(over="ignore"):
                cells = [(str(term), [f"{one:.4g}", f"{np.exp(one):.4g}"]) for term, one in own["estimate"].items()]
            blocks.append(full_width(["coef", "exp(coef)"], cells, [14, 14], title=title))
        base = shorten(self.classes[0], 30)
        notes = [
            guarantee_sentence(self.guarantee, "The fit is"),
            f"Coefficients are log odds against {response}={base}; predict gives probabilities.",
            WITH_ERRORS_NOTE if paid else _without_errors_note(self.plan),
            *counts_note(self.plan),
            *faults_line(self.plan),
        ]
        counts = self.plan.counts
        observations = f"{self.nobs:,}" if self.nobs is not None else "private" if counts is None else counts.shown
        return Summary([_header(self.plan, observations), *blocks], [*notes, *self.plan.design.notes])

    def to_dict(self) -> dict[str, Any]:
        return {"plan": self.plan.to_dict(), "scaled_params": self.scaled_params.tolist(), "nobs": self.nobs} | {
            "information": None if self.information is None else self.information.tolist()
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        plan = MultinomialPlan.from_dict(facts["plan"])
        released = np.asarray(facts["scaled_params"], dtype=np.float64)
        if released.shape != (len(plan.classes), len(plan.names)) or not np.isfinite(released).all():
            raise ValueError("the stored coefficients do not suit the plan")
        bought = facts["information"]
        return cls(plan, released, facts["nobs"], None if bought is None else np.asarray(bought, dtype=np.float64))

    def __repr__(self) -> str:
        return f"<MultinomialResults: {self.plan.design.formula}, {len(self.classes)} classes; {self.guarantee}>"
