"""A model fitted to reports: coefficients, three guarantees, predictions, and intervals from the noise of their sum
(docs/proofs/local, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.iolib.table import SimpleTable

from dpstats import penalties
from dpstats.arguments import check_choice, check_flag, check_fraction, explain_calls
from dpstats.data import as_table
from dpstats.errors import NotReleasedError
from dpstats.families import get_family
from dpstats.formula.design import DesignSpec
from dpstats.frames import WideFrame
from dpstats.inference import Estimates, Inference, KnownInformation, ModelSpread, NormalLaw, SpanNoise
from dpstats.inference.basis import self_adjoint
from dpstats.local.compile import local_design
from dpstats.local.spec import EXPOSED, Spec
from dpstats.mechanisms.design import constant_places, declared_ranges
from dpstats.penalties import Penalty
from dpstats.plan.row_counts import RowCount
from dpstats.privacy.calibration import check_positive
from dpstats.privacy.guarantee import Guarantee
from dpstats.proof_pages import cite_proof
from dpstats.quiet import quiet
from dpstats.results.contrasts import to_the_noise
from dpstats.results.stored import Released
from dpstats.summaries import Summary, format_number, full_width, paired_facts, shorten
from dpstats.wording import sentence

Float = NDArray[np.float64]

# Residual variance where errors cover the noise alone: the sample's error is then negligible
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class ReportMoments:
    """Estimates of sum q q' and sum p from the reports, with the variance of their noise."""

    matrix: Float  # (p, p)
    vector: Float  # (p,)
    matrix_noise: float  # Variance of the noise in an entry off the diagonal; on it twice as much
    vector_noise: float  # Variance of the noise in an entry of `vector`
    count: int  # The number of reports

    def equation_noise(self, coef: Float) -> Float:
        """Covariance of the noise E coef + e in the normal equations, shape (p, p)."""
        square = self.matrix_noise * float(coef @ coef) + self.vector_noise
        return np.asarray(square * np.eye(len(coef)) + self.matrix_noise * np.outer(coef, coef), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "matrix": self.matrix.tolist(), "vector": self.vector.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        return cls(**{**stored, "matrix": np.asarray(stored["matrix"]), "vector": np.asarray(stored["vector"])})


def least_squares_inference(
    moments: ReportMoments, design: DesignSpec, radius: float, residual_variance: float
) -> Inference:
    """Least squares of the sums without a ridge, with errors in the user's units.

    `residual_variance`, in model units, adds the sample's error; without it the noise is the only one.
    """
    law = SpanNoise(np.eye(len(moments.vector), dtype=np.float64), moments.matrix_noise)
    known = KnownInformation.of(moments.matrix, law, design.forms(), design.dummies, constant_places(design))
    basis, identified, size = known.basis, known.identified, len(moments.vector)
    coef, active = np.zeros(size), identified.active
    coef[active] = identified.inverse @ (basis.T @ moments.vector)[active]
    estimates = Estimates(
        coef=coef,
        information=known.matrix,
        curvature=np.zeros((size, size)),
        linear=NormalLaw(self_adjoint(basis.T @ moments.equation_noise(basis @ coef) @ basis)),
        matrix=known.law,
        spread=ModelSpread(max(residual_variance, NEGLIGIBLE), 0.0),
        typical_size=radius / np.sqrt(size),
        found=identified,
        ranges=declared_ranges(design),
    )
    transform, shift = design.back_transform()
    return Inference(estimates, transform @ basis, shift)


_MEANS = "predict(newdata) has the means of public rows, without intervals"
_INTERVALS = "uncertainty() has the standard errors of linear models, and conf_int() the intervals"
_MODEL = "summary() has all that was released of the model"

CLEARLY_NULL = 3.0
"""Null reports are said to exist from so many standard deviations of the noise on; it passes once in 700 fits."""

SHOWN_COLLUDERS = 0.5  # Share of colluding contributors in the summary's third guarantee


@dataclass(frozen=True, eq=False)
class LocalResults(Released):
    """A model fitted by `dp.local.fit`; all of it is post-processing of the reports.

    Attributes
    ----------
    spec : Spec
    design : DesignSpec
    scaled_params : ndarray, shape (p,)
        In model units.
    noise_covariance : ndarray, shape (p, p)
        What the reports' noise gives them, to first order; a function of released values.
    nobs : int
        The number of reports, null ones included, which is public.
    curvature : float
        Of the ridge that steadied the solution.
    penalty : Penalty or None
    features : str
        Whether the noise's second moment was taken off, in scheme "features".
    sums : ReportMoments or None
        The sums of squares and products with their noise, which intervals follow from; None where there are none.
    records : RowCount or None
        About how many reports are not null ones: `value` and `std_error`, that of the reports' noise. None without an
        intercept and in scheme "features".

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=50)
    >>> reports = [dp.local.randomize({"x": x, "y": x}, spec) for x in rng.uniform(0, 1, 50)]
    >>> fit = dp.local.fit(dp.local.total(reports, spec), spec)
    >>> fit.params.index.tolist(), len(fit.guarantees) > 1
    (['Intercept', 'x'], True)
    >>> fit.guarantee.eps < fit.against(colluders=5).eps < fit.local_guarantee.eps
    True
    >>> list(fit.uncertainty().columns), fit.conf_int(residual_sd=0.1).shape
    (['coef', 'std_error', 'low', 'high'], (2, 2))
    >>> fit.predict({"x": [0.2, 0.8]}).shape, fit.glance().shape[0], fit.tidy().columns[1]
    ((2,), 1, 'estimate')
    >>> "x" in fit.summary().as_text(), "---:|" in fit.to_markdown()
    (True, True)
    >>> "tabular" in fit.to_latex(), "<td" in fit.to_html()
    (True, True)
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/fit.json"
    >>> fit.save(path)
    >>> bool((dp.local.LocalResults.load(path).params == fit.params).all())
    True
    >>> dp.local.LocalResults.from_dict(fit.to_dict()).nobs
    50
    """

    spec: Spec
    design: DesignSpec
    scaled_params: Float
    noise_covariance: Float
    nobs: int
    curvature: float
    penalty: Penalty | None = None
    features: str = "debiased"
    sums: ReportMoments | None = None
    records: RowCount | None = None

    instead: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("comparisons", "effects", "get_margeff", "get_prediction", "predictions"), _MEANS),
        **dict.fromkeys(("bse", "cov_params", "debiased", "pvalues", "tvalues", "vcov"), _INTERVALS),
        **dict.fromkeys(("f_test", "t_test", "wald_test", "wald_test_terms"), _INTERVALS),
        **dict.fromkeys(("deviance", "fitstats", "fvalue", "f_pvalue", "rsquared", "rsquared_adj"), _MODEL),
        "budget": "guarantees has what is protected against whom",
        "notes": "summary() prints its notes",
        **dict.fromkeys(("left_out", "selection"), "params is zero for the columns that a sparse penalty left out"),
        "excess_risk": "no bound is proved for reports",
        "noise_at_most": "tidy() has noise_sd, the standard deviation of the noise",
        "focus": "conf_int() has intervals of all coefficients of linear models",
    }

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients in the user's units, indexed by column name."""
        matrix, shift = self.design.back_transform()
        return pd.Series(matrix @ self.scaled_params + shift, index=list(self.design.names), name="params")

    @property
    def guarantee(self) -> Guarantee:
        """Of the fit, to its readers."""
        return self.spec.central_guarantee()

    @property
    def local_guarantee(self) -> Guarantee:
        """Of one report, to the collector."""
        return self.spec.local_guarantee

    def against(self, colluders: int) -> Guarantee:
        """Of the fit, to readers of whom `colluders` know the noise in their own reports."""
        return self.spec.central_guarantee(colluders)

    @property
    def guarantees(self) -> pd.DataFrame:
        """The three guarantees: eps, delta, mu, certified, and to whom each is given."""
        colluders = int(SHOWN_COLLUDERS * self.spec.n)
        rows = {
            "one report": (self.local_guarantee, "the collector, who sees each"),
            "the fit": (self.guarantee, "readers of the fit alone"),
            f"{colluders} colluders": (self.against(colluders), "readers who know their noise"),
        }
        facts = [
            {"eps": g.eps, "delta": g.delta, "mu": g.mu or np.nan, "certified": g.certified, "to": to}
            for g, to in rows.values()
        ]
        return WideFrame(facts, index=list(rows))

    def predict(self, newdata: Any, which: Literal["mean", "linear"] = "mean") -> pd.Series[float]:
        """Predictions for new rows, as `GLMResults.predict`.

        Raises
        ------
        ArgumentError
            If `which` is unknown.
        DataError
            If `newdata` lacks a column the formula needs.
        """
        check_choice("which", which, ("mean", "linear"))
        table = as_table(newdata)
        exog, complete = self.design.exog(table)
        predicted = np.full(len(exog), np.nan)
        with quiet():
            linear = exog[complete] @ self.scaled_params
            mean = get_family(self.spec.family).mean(linear) if which == "mean" else linear
            predicted[complete] = np.asarray(mean)
        if self.spec.family == "gaussian":
            middle, half_width = self.design.response_scaling()
            predicted = middle + half_width * predicted
        return pd.Series(predicted, index=table.index, name="predicted")

    def uncertainty(self, alpha: float = 0.05, *, residual_sd: float | None = None) -> pd.DataFrame:
        """Coefficients without the ridge, with intervals from the known noise of the reports: one row a coefficient.

        Parameters
        ----------
        alpha : float
            1 less the coverage of the intervals.
        residual_sd : float, optional
            The standard deviation of the response beside its columns, in its units: a public guess, which adds the
            sample's error. Reports do not tell it. Without one intervals are for the coefficients that the same records
            give without noise, as wide as privacy alone makes them.

        Returns
        -------
        DataFrame
            coef, std_error, low and high; an infinite error where the noise leaves a coefficient open, and coef is as
            released.

        Raises
        ------
        NotReleasedError
            For logistic regression, with a penalty, and in scheme "features".
        """
        inference = self._inference(residual_sd)
        with quiet():
            ends = inference.conf_int(alpha)
            coef = np.where(np.isfinite(inference.se), inference.coef, self.params)
            columns = {"coef": coef, "std_error": inference.se, "low": ends[:, 0], "high": ends[:, 1]}
        return WideFrame(columns, index=list(self.design.names))

    def conf_int(self, alpha: float = 0.05, *, residual_sd: float | None = None) -> pd.DataFrame:
        """The intervals of `uncertainty`; columns 0 and 1."""
        table = self.uncertainty(alpha, residual_sd=residual_sd)
        return WideFrame(table[["low", "high"]].set_axis([0, 1], axis="columns"))

    def _inference(self, residual_sd: float | None = None) -> Inference:
        """The inference behind `uncertainty`; NotReleasedError where there is none."""
        if self.sums is None:
            raise NotReleasedError(_without_intervals(self))
        if residual_sd is not None:
            check_positive("residual_sd", residual_sd)
        variance = 0.0 if residual_sd is None else (residual_sd / self.design.response_scaling()[1]) ** 2
        with quiet():
            return least_squares_inference(self.sums, self.design, self.spec.radius, variance)

    @explain_calls(exponentiate="take np.exp of the estimate")
    def tidy(
        self, *, conf_int: bool = True, conf_level: float = 0.95, residual_sd: float | None = None
    ) -> pd.DataFrame:
        """One row per coefficient, with the column names of broom.

        The columns are term and estimate, in the user's units. Where the noise tells intervals the estimate is without
        the ridge, as in `summary` and `uncertainty`, and std_error, conf_low and conf_high follow, which are NaN
        elsewhere. Then come released, the coefficient as `params` has it, shrunken by the ridge; scaled_released, the
        same in model units; and noise_sd, the standard deviation that noise gives `released`, to first order.

        Parameters
        ----------
        conf_int : bool
            Whether conf_low and conf_high are there.
        conf_level : float
            The coverage of these intervals.
        residual_sd : float, optional
            As for `uncertainty`.

        Raises
        ------
        NotReleasedError
            If `residual_sd` is given where there are no intervals.
        """
        level, ends = check_fraction("conf_level", conf_level), check_flag("conf_int", conf_int)
        back, _ = self.design.back_transform()
        table = pd.DataFrame({"term": list(self.design.names), "estimate": self.params.to_numpy()})
        if self.sums is not None or residual_sd is not None:
            # Rounded, so that 0.95 is the alpha 0.05 of other tables.
            intervals = self.uncertainty(round(1 - level, 15), residual_sd=residual_sd)
            table[["estimate", "std_error", "conf_low", "conf_high"]] = intervals.to_numpy()
        else:
            table = table.reindex(columns=[*table, "std_error", "conf_low", "conf_high"])
        table = table if ends else table.drop(columns=["conf_low", "conf_high"])
        noise_sd = np.sqrt(np.diag(back @ self.noise_covariance @ back.T))
        shrunken = {"released": self.params.to_numpy(), "scaled_released": self.scaled_params}
        return WideFrame(table.assign(**shrunken, noise_sd=noise_sd))

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model."""
        spec, central, local = self.spec, self.guarantee, self.local_guarantee
        facts = {
            "family": spec.family,
            "scheme": spec.scheme,
            "nobs": self.nobs,
            "n": spec.n,
            "eps": central.eps,
            "local_eps": local.eps,
            "delta": spec.delta,
            "certified": central.certified,
            "curvature": self.curvature,
        }
        return WideFrame([facts])

    def summary(self) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html and as_latex."""
        return Summary([_header(self), _coefficients(self), _guarantees(self)], _notes(self))

    def __repr__(self) -> str:
        return f"<LocalResults of {self.spec!r}>"

    def to_dict(self) -> dict[str, Any]:
        """Specification and released values, for JSON."""
        return {
            "spec": self.spec.to_json(),
            "scaled_params": self.scaled_params.tolist(),
            "noise_covariance": self.noise_covariance.tolist(),
            "nobs": self.nobs,
            "curvature": self.curvature,
            "penalty": None if self.penalty is None else self.penalty.to_dict(),
            "features": self.features,
            **({} if self.sums is None else {"sums": self.sums.to_dict()}),
            **({} if self.records is None else {"records": list(self.records)}),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        spec = Spec.from_json(facts["spec"])
        return cls(
            spec,
            local_design(spec.formula, spec.domain, spec.family),
            np.asarray(facts["scaled_params"]),
            np.asarray(facts["noise_covariance"]),
            facts["nobs"],
            facts["curvature"],
            None if facts["penalty"] is None else penalties.from_dict(facts["penalty"]),
            facts["features"],
            ReportMoments.from_dict(facts["sums"]) if "sums" in facts else None,
            RowCount(*facts["records"]) if "records" in facts else None,
        )


def _header(results: LocalResults) -> SimpleTable:
    """Pairs of facts on the model (left) and on the collection (right)."""
    spec, guarantee = results.spec, results.guarantee
    title = f"Input Perturbation: {'linear' if spec.family == 'gaussian' else 'logistic'} regression"
    if not guarantee.certified:
        title = f"*** CENTRAL GUARANTEE NOT CERTIFIED: see notes ***\n{title}"
    left = [
        ("Dep. Variable:", shorten(results.design.response_name, 22)),
        ("Family:", spec.family),
        ("Scheme:", spec.scheme if spec.scheme == "statistics" else f"features, {results.features}"),
        ("Penalty:", "None" if results.penalty is None else results.penalty.name),
        ("Ridge:", format_number(results.curvature)),
    ]
    right = [
        ("No. Reports:", f"{results.nobs:,}"),
        ("Promised at least:", f"{spec.n:,}"),
        ("Central epsilon:", f"{guarantee.eps:.6g}"),
        ("Local epsilon:", f"{results.local_guarantee.eps:.6g}"),
        ("Delta:", f"{spec.delta:.6g}"),
    ]
    return paired_facts(title, left, right)


def _coefficients(results: LocalResults) -> SimpleTable:
    """Coefficients with intervals; where none has one, as fitted, with the standard deviation of their noise."""
    if _any_identified(results):
        intervals = results.uncertainty()
        rows = [(str(name), _with_ends(row.to_numpy(dtype=np.float64))) for name, row in intervals.iterrows()]
        return full_width(["coef", "std err", "[0.025", "0.975]"], rows, columns=[12, 12, 12, 12])
    rows = [
        (
            row["term"],
            [
                *(to_the_noise(row[name], row["noise_sd"]) for name in ("released", "noise_sd")),
                "yes" if abs(row["released"]) < 2 * row["noise_sd"] else "",
            ],
        )
        for _, row in results.tidy().iterrows()
    ]
    # What a strong ridge pulls away from zero is not told from noise by its size.
    unsure = results.sums is None and any(cells[-1] for _, cells in rows)
    rows = rows if unsure else [(name, cells[:-1]) for name, cells in rows]
    return full_width(["coef", "noise sd", "within noise"][: 2 + unsure], rows, columns=[14, 14, 14][: 2 + unsure])


def _any_identified(results: LocalResults) -> bool:
    """Whether a coefficient has an interval."""
    return results.sums is not None and bool(np.isfinite(results.uncertainty()["std_error"]).any())


def _with_ends(values: Float) -> list[str]:
    """Coefficient, error and ends of the interval, to the error's digits; blank where the error is infinite."""
    coef, error = values[:2]
    if not np.isfinite(error):
        return [f"{coef:.2g}", "", "", ""]
    return [to_the_noise(value, error) for value in values]


def _guarantees(results: LocalResults) -> SimpleTable:
    rows = [
        (name, [format_number(eps), format_number(delta), "yes" if certified else "NO", to])
        for name, eps, delta, _, certified, to in results.guarantees.itertuples()
    ]
    return full_width(["eps", "delta", "certified", ""], rows, columns=[8, 8, 9, 30], title="Guarantees")


def _without_intervals(results: LocalResults) -> str:
    """Why a fit has no intervals, and what to type."""
    noise = "tidy() without residual_sd, whose noise_sd is the standard deviation of the noise"
    if results.spec.family == "binomial":
        return f"a logistic regression of reports has no intervals: call {noise}"
    if results.spec.scheme == "features":
        return f"reports of scheme='features' have no intervals: call {noise}"
    if results.penalty is not None:
        return f"a fit with penalty= has no intervals: call dp.local.fit without penalty=, or {noise}"
    return (
        f"the saved fit lacks the sums that intervals follow from: call dp.local.fit(reports, spec) again, or {noise}"
    )


def _notes(results: LocalResults) -> list[str]:
    """What the reader must know, in plain words."""
    spec, guarantee = results.spec, results.guarantee
    notes = [
        "The guarantees cover replacing a record by another one or by the null report; the number of reports is "
        f"public ({cite_proof('docs/proofs/local')}). A contributor who sends nothing also leaves out their noise, "
        "which the guarantees do not cover.",
        "Against a collector who sees single reports, only the local guarantee holds. If the reports are added up "
        "by a secure sum, the central guarantee holds against the collector too.",
    ]
    if spec.exposed:
        notes.append(sentence(EXPOSED))
    if not guarantee.certified:
        notes.append(f"The central epsilon is the paper's claim and not certified: {guarantee.reason}.")
    if (records := results.records) is not None:
        null = results.nobs - records.value > CLEARLY_NULL * records.std_error
        notes.append(
            f"Records with content: {records} of {results.nobs:,} reports, by the noisy sums. "
            + (
                "The others are null: a cell is missing, not a number, or of no declared level."
                if null
                else "The noise alone explains the difference, so there may be no null report."
            )
        )
    if results.nobs > spec.n:
        notes.append("There are more reports than promised. Each adds noise, so the guarantees hold with a margin.")
    if spec.family == "binomial":
        notes.append(
            "Sums of squares and products approximate the logistic likelihood. Log odds are accurate as far as "
            "they follow a beta law on the range that the design allows."
        )
    if not _any_identified(results):
        notes.append(
            "noise sd is the standard deviation due to the noise of the reports, to first order. Sampling error is "
            "extra."
        )
        if results.sums is not None:
            notes.append(
                "No coefficient has an interval at this budget: coef is as released (params), shrunken by a ridge "
                "penalty, which noise sd does not count."
            )
        return notes
    notes.append(
        "std err and intervals cover only the known noise of the reports: they refer to the fit of the same "
        "records without noise. conf_int(residual_sd=) adds sampling error. params are shrunken by a ridge penalty."
    )
    errors = results.uncertainty()["std_error"]
    unknown = [str(name) for name, error in errors.items() if not np.isfinite(error)]
    notes += [f"Not identified at this budget, and as released: {', '.join(unknown)}."] if unknown else []
    return notes
