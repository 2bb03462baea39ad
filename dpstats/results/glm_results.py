"""What a fitted model keeps: released coefficients and public facts, never rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.arguments import check_flag
from dpstats.errors import NotReleasedError
from dpstats.frames import NotedFrame
from dpstats.mechanisms.fit_statistics import FitSums
from dpstats.mechanisms.focus import ArmSums
from dpstats.mechanisms.information import Information, ReleasedSums
from dpstats.plan import Plan
from dpstats.plan.row_counts import CHECK_SHARE
from dpstats.plan.tables import capped_at, in_units, method_name
from dpstats.privacy.k_norm import KNormNoise
from dpstats.privacy.noise import Noise
from dpstats.results.model import NeededRows, ReleasedModel
from dpstats.results.statistics import ReleasedStatistics
from dpstats.results.summary import Summary, summarize
from dpstats.results.summary_header import codes_note
from dpstats.results.summary_notes import essential_notes, risk_note
from dpstats.wording import argument


class GLMResults(ReleasedModel):
    """A released generalised linear model.

    Attributes
    ----------
    plan : Plan
        The public plan of the release.
    scaled_params : ndarray, shape (p,)
        Released coefficients in model units, as the mechanism released them.
    nobs : int or None
        The number of rows where it is public (``adjacency="replace_one"``), else None.
    released : Information, ReleasedSums or None
        The quantities released for inference, if any.
    holdouts : tuple of str
        Of each `dpstats.holdout` to whose training rows the model was fitted, a hash of its public rule.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> fit = dp.ols("y ~ x", rows, eps=1.0, domain=domain)
    >>> fit
    <GLMResults: gaussian, y ~ x; eps=1, add_remove, certified>
    >>> fit.predict({"x": [0.2, 0.8]}).shape
    (2,)
    >>> fit.nobs is None  # private under add_remove
    True
    >>> fit.glance().shape[0], "per_row" in fit.excess_risk(n=2000).columns
    (1, True)
    >>> any("bias-corrected" in note for note in fit.notes)
    True
    """

    @property
    def noise(self) -> Noise | KNormNoise:
        """The law of the noise in the objective."""
        return self.plan.noise

    @property
    def statistics(self) -> ReleasedStatistics:
        """The released sums of a fit by ``method="statistics"``: other linear models of its columns cost no more.

        Raises
        ------
        NotReleasedError
            If the fit was by another method.
        """
        statistics = self.plan.objective.statistics
        if statistics is None or not isinstance(self.released, ReleasedSums):
            method = argument("method", "statistics")
            raise NotReleasedError(f"statistics were not released; {method} or release_statistics buys them")
        held = replace(statistics, guarantee=self.guarantee)
        ranges = float(self.budget["eps"].get("ranges", 0.0))
        return ReleasedStatistics(held, self.released.sums, self.nobs, ranges)

    def excess_risk(
        self, pi: float = 0.05, radius: float | None = None, n: int | None = None, *, printed: bool = False
    ) -> pd.DataFrame:
        """Proved bounds on what privacy costs in the objective; see `Plan.excess_risk`."""
        return self.plan.excess_risk(pi, radius, n, printed=printed)

    def __repr__(self) -> str:
        return f"<GLMResults: {self.plan.description}>"

    def _as_released(self) -> dict[str, NDArray[Any]]:
        return super()._as_released() | {"noise_at_most": self.noise_at_most.to_numpy()}

    def glance(self) -> pd.DataFrame:
        """One row of facts about the model; nobs, the number of rows used, is missing if it is private.

        Where it was counted nobs is noisy, and nobs_std_error follows. Where another number was counted nobs is missing
        and that number follows with its std_error: rows_counted, if ranges bought after the count may have left some of
        the rows out, and persons_counted, if each person's rows weigh as one. A line below the printed table says why
        nobs is missing. With `fitstats` or method="statistics"
        these columns follow too: r_squared or deviance_explained with its std_error, and statistic, p_value and df of
        the joint test of all slopes. method is as in the summary: "sums with a cap" is no value of the argument.
        """
        plan, request = self.plan, self.plan.request
        facts = {
            "family": plan.family.name,
            "link": plan.family.link,
            "method": method_name(plan),
            "penalty": "none" if request.penalty is None else request.penalty.name,
            "df_model": plan.df_model,
            "nobs": pd.NA if self.nobs is None else self.nobs,
            **{name: getattr(plan.guarantee, name) for name in ("eps", "delta", "adjacency", "unit", "certified")},
            "noise": plan.objective.law_name,
            "noise_scale": plan.noise.scale,
            "curvature": float(np.min(plan.curvature)),
        }
        if self.nobs is None and self._counted is not None:
            facts |= {"nobs": max(round(self._counted.value), 0), "nobs_std_error": self._counted.se}
        elif self.nobs is None and plan.counts is not None and plan.counts.rows_eps:
            counts, name = plan.counts, f"{plan.counts.of}_counted"
            count, deviation = self._rows_before or (counts.rows or 0, counts.rows_sd)
            facts |= {name: max(round(count), 0), f"{name}_std_error": deviation}
        note = _no_rows_note(self) if facts["nobs"] is pd.NA else ""
        if self.fit_sums is None and not (isinstance(self.released, ReleasedSums) and self.has_errors):
            return _noted([facts], note)
        figures, cap = self.fitstats, capped_at(plan)
        if cap is not None and "r_squared" in figures.index:
            note = "\n".join(filter(None, [f"r_squared: of residuals capped at {in_units(cap)}", note]))
        for name in figures.index.intersection(["r_squared", "deviance_explained"]):
            facts |= {name: figures.loc[name, "value"], f"{name}_std_error": figures.loc[name, "std_error"]}
        if "slopes" in figures.index:
            columns = {"statistic": "value", "p_value": "p_value", "df": "df"}
            facts |= {name: figures.loc["slopes", column] for name, column in columns.items()}
        return _noted([facts], note)

    @property
    def notes(self) -> list[str]:
        """What no reader of the coefficients may miss, the most important first; `summary` has three of them."""
        return [*codes_note(self), *essential_notes(self), *risk_note(self, None)]

    def summary(self, *, full: bool = False, n: int | None = None) -> Summary:
        """The regression table, in statsmodels' look; as_text, as_html, as_latex and as_markdown.

        Parameters
        ----------
        full : bool
            Also mechanism, budget, noise, proved excess risk and all notes.
        n : int, optional
            A public number of rows, for the cost of privacy per row.

        Raises
        ------
        ArgumentError
            If `n` is not positive.

        Examples
        --------
        >>> "x" in fit.summary(full=True).as_text()
        True
        """
        return summarize(self, full=check_flag("full", full), n=n)

    def to_dict(self) -> dict[str, Any]:
        """The released values and the public plan, for JSON."""
        facts = {"plan": self.plan.to_dict(), "scaled_params": self.scaled_params.tolist(), "nobs": self.nobs}
        facts["information"] = None if self.released is None else self.released.to_dict()
        facts["advice"] = list(self.plan.advice)
        for name, sums in (("fit_statistics", self.fit_sums), ("arm_sums", self.arm_sums)):
            facts |= {} if sums is None else {name: sums.to_dict()}
        facts |= {"holdouts": list(self.holdouts)} if self.holdouts else {}
        needed = None if self.has_errors and not np.isinf(self.bse).any() else self.needed_rows
        return facts | ({} if needed is None else {"needed_rows": needed._asdict()})

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        kept = facts.get("information")
        released = None if kept is None else (ReleasedSums if "sums" in kept else Information).from_dict(kept)
        plan = replace(Plan.from_dict(facts["plan"]), advice=tuple(map(str, facts.get("advice", ()))))
        sums, arms, needed = map(facts.get, ("fit_statistics", "arm_sums", "needed_rows"))
        averaged = None if sums is None else FitSums.from_dict(sums)
        focus = None if arms is None else ArmSums.from_dict(arms)
        held, params = tuple(map(str, facts.get("holdouts", ()))), np.asarray(facts["scaled_params"])
        fit = cls(plan, params, facts["nobs"], released, averaged, focus, holdouts=held)
        vars(fit)["needed_rows"] = None if needed is None else NeededRows(needed["rows"], needed["usual"])
        return fit


def _noted(facts: list[dict[str, Any]], note: str) -> pd.DataFrame:
    frame = NotedFrame(facts)
    if note:
        frame.attrs["note"] = note
    return frame


def _no_rows_note(fit: GLMResults) -> str:
    """Why the number of rows used is missing, in a sentence or two."""
    plan, counts = fit.plan, fit.plan.counts
    if counts is None or not counts.rows_eps:
        buys = argument("check_share", CHECK_SHARE)
        bought = f"{buys} buys a count, and " if plan.request.options.check_share == 0 else ""
        public = argument("adjacency", "replace_one")
        return f"nobs: the number of rows is private and was not counted; {bought}{public} makes it public."
    if counts.persons:
        return "nobs: persons were counted, not their rows; persons_counted is their number."
    opened = [name for name in plan.bought if name not in plan.trimmed]
    keeps = f"declare {', '.join(opened)}" if opened else argument("ranges", "declared")
    return (
        "nobs: rows outside a range that was bought after the count are left out, and their number is not released. "
        f"rows_counted is the number before. To know the rows used: {keeps}."
    )
