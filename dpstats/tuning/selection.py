"""The candidate of least loss on private rows, and bounds on its excess loss (docs/proofs/choice)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from dpstats.arguments import check_flag, explain_calls, is_number, safe_repr
from dpstats.call import check_privacy
from dpstats.data import Table, as_table
from dpstats.domain import Domain
from dpstats.errors import ArgumentError
from dpstats.frames import WideFrame
from dpstats.ledger import LedgerLike
from dpstats.models.release import Release, check_for_unit, check_unit
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.selection import PermuteAndFlip
from dpstats.quiet import hide_frames
from dpstats.results.glm_results import GLMResults
from dpstats.results.stored import Released, guarantee_sentence, marked_title
from dpstats.summaries import Summary, format_number, full_width, shorten
from dpstats.tuning.losses import Losses, ModelLosses, rule_losses, total_losses

PROOF = "docs/proofs/choice"
BETA = 0.05  # Probability that a bound in the summary fails


def exponential_bound(choice: PermuteAndFlip, beta: float) -> float:
    """As `PermuteAndFlip.bound`, of the exponential mechanism at the same eps: weights exp(-loss / scale)."""
    return max(0.0, choice.scale * math.log((choice.candidates - 1) * (1 - beta) / beta))


def realizable_bound(choice: PermuteAndFlip, beta: float, n: float) -> float:
    """The expected loss of a new row under the chosen candidate if some candidate never loses anything."""
    return max(0.0, math.log((choice.candidates - 1) / (2 * beta))) / (n * -math.expm1(-1 / choice.scale))


@dataclass(frozen=True, eq=False)
class Selection(Released):
    """The choice of `select`.

    Attributes
    ----------
    chosen : str
        The candidate's name.
    candidate : object
        The candidate itself; None in what `load` reads.
    names : tuple of str
        All candidates.
    score : str
    choice : PermuteAndFlip
        The law of the choice.
    guarantee : Guarantee

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> choice = dp.select([0.25, 0.5], "abs(x - candidate)", rows, domain=domain, eps=1.0)
    >>> choice.names, choice.chosen in choice.summary().as_text(), choice.utility(0.05).columns.tolist()
    (('0.25', '0.5'), True, ['bound', 'rows', 'per_row', 'holds'])
    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/choice.json"
    >>> choice.save(path)
    >>> dp.Selection.load(path).chosen == choice.chosen, dp.Selection.from_dict(choice.to_dict()).names
    (True, ('0.25', '0.5'))
    """

    chosen: str
    candidate: Any
    names: tuple[str, ...]
    score: str
    choice: PermuteAndFlip
    guarantee: Guarantee

    @property
    def budget(self) -> pd.DataFrame:
        """What the budget was spent on: one choice."""
        entry = (self.guarantee.eps, self.guarantee.delta, f"1 of {len(self.names)} candidates")
        return WideFrame([entry], columns=["eps", "delta", "buys"], index=pd.Index(["choice"], name="purchase"))

    def utility(self, beta: float = BETA, n: float | None = None) -> pd.DataFrame:
        """Bounds on the loss of the chosen candidate beyond the best one, which fail with probability at most `beta`.

        Parameters
        ----------
        beta : float
        n : float, optional
            A public number of rows, for bounds on new rows too.

        Returns
        -------
        DataFrame
            Columns bound; rows, the loss beyond that of the best candidate summed over the rows chosen from; per_row,
            the same over n, or the expected loss of a new row beyond that of the best; holds, "proved" or "printed".
        """
        choice, size = self.choice, self.choice.candidates
        ours = choice.bound(beta)
        if n is not None and not (is_number(n) and n > 0):
            raise ArgumentError(f"n must be a positive number of rows, got {safe_repr(n)}")
        lines = [
            ("these rows, permute-and-flip (used)", ours, "proved"),
            ("these rows, exponential mechanism", exponential_bound(choice, beta), "proved"),
            ("these rows, CMS 2011, Theorem 9", 2 * math.log(size / beta) / choice.eps, "printed"),
        ]
        bounds = [(name, rows, math.nan if n is None else rows / n, holds) for name, rows, holds in lines]
        if n is not None:
            wide = 1 if choice.monotone else 2
            sampling = wide * math.sqrt(2 * math.log(2 * (size - 1) / beta) / n)
            bounds.append(("new rows", math.nan, sampling + choice.bound(beta / 2) / n, "proved"))
            if choice.monotone:
                bounds.append(("new rows, if one never errs", math.nan, realizable_bound(choice, beta, n), "proved"))
            printed = math.sqrt(math.log(size / beta) / n) + math.log(size / beta) / (n * choice.eps)
            bounds.append(("new rows, lecture, no constants", math.nan, printed, "printed"))
        return WideFrame(bounds, columns=["bound", "rows", "per_row", "holds"])

    def summary(self) -> Summary:
        """The choice, its budget and its bounds; as_text, as_html and as_latex."""
        title = marked_title(f"Choice of the least {shorten(self.score, 40)}", self.guarantee)
        listed = [(name, ["chosen" if name == self.chosen else ""]) for name in self.names]
        rows = [
            (line["bound"], [format_number(line["rows"]), line["holds"]])
            for _, line in self.utility().iterrows()
            if line["holds"] == "proved"
        ]
        bought = [("choice", [format_number(self.guarantee.eps), format_number(self.guarantee.delta)])]
        tables = [
            full_width([""], listed, [10], title=title),
            full_width(["eps", "delta"], bought, [10, 10], title="Budget"),
            full_width(["rows", "holds"], rows, [10, 10], title=f"Loss beyond the best, with probability {1 - BETA:g}"),
        ]
        unit = self.guarantee.unit
        who = "A row adds" if unit is None else f"All rows of one {unit} together add"
        each = "between 0 and 1" if self.choice.monotone else "between -1 and 1"
        notes = [
            guarantee_sentence(
                self.guarantee, "The choice is", "; the cost of the candidates themselves is not included"
            ),
            f"{who} {each} to a candidate's loss. The losses are not released: only which candidate was chosen.",
        ]
        return Summary(tables, notes)

    def __repr__(self) -> str:
        return f"<Selection: {shorten(self.chosen, 40)} of {len(self.names)} candidates; {self.guarantee}>"

    def to_dict(self) -> dict[str, Any]:
        """What was released, for JSON, without the candidates themselves."""
        facts = {"chosen": self.chosen, "names": list(self.names), "score": self.score}
        return {**facts, "choice": self.choice.to_dict(), "guarantee": self.guarantee.to_dict()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_dict` gave `facts` of."""
        choice, guarantee = PermuteAndFlip.from_dict(facts["choice"]), Guarantee(**facts["guarantee"])
        return cls(facts["chosen"], None, tuple(facts["names"]), facts["score"], choice, guarantee)


@hide_frames
@explain_calls()
def select(
    candidates: Mapping[str, Any] | Sequence[Any],
    score: str,
    data: object,
    *,
    domain: Domain | Mapping[str, Any] | None = None,
    eps: float,
    monotone: bool = True,
    adjacency: str = "add_remove",
    unit: str | None = None,
    ledger: LedgerLike = None,
    seed: int | None = None,
) -> Selection:
    """Choose the candidate with the least loss on private rows; only its name is released.

    Parameters
    ----------
    candidates : dict or sequence
        Released models, as `dpstats.glm` returns; or rules, such as ``"age > 40"``; or numbers. A dict names them. The
        list of candidates is public and must not depend on the data.
    score : str
        The loss of a row. For models "mistakes" (for a response of two values), "absolute_error" or "squared_error",
        where errors are divided by the width of the declared range of the response. Otherwise an expression, as in a
        formula, that reads the name ``candidate``: ``"candidate != (income == '>50K')"``, ``"abs(age - candidate) /
        73"``.
    data : DataFrame or another table
        The private rows, preferably rows that the models were not fitted to. Rows that lack a cell which any candidate
        needs are left out.
    domain : Domain or dict, optional
        For every column that an expression reads; models have their own.
    eps : float
        The budget; the choice is pure.
    monotone : bool
        The loss of a row is clipped to [0, 1]. With ``monotone=False`` it is clipped to [-1, 1], so a row may help one
        candidate and harm another, and the noise is twice as large.
    adjacency : {"add_remove", "replace_one"}
    unit : str, optional
        The column that identifies persons with several rows. The rows of a person share the influence of one row
        equally, and the guarantee is for persons.
    ledger : Ledger, Part or path, optional
        Charged durably before any row is read.
    seed : int, optional
        For tests only; the guarantee is then not certified.

    Returns
    -------
    Selection

    Raises
    ------
    ArgumentError, FormulaError, DomainError, DataError
        Before anything is spent.
    BudgetExceeded
        If the ledger has too little left.

    Notes
    -----
    Permute-and-flip [1]_ by OpenDP: it is never worse than the exponential mechanism, and has half its noise if one row
    moves all scores in the same direction (docs/proofs/choice).

    References
    ----------
    .. [1] McKenna, R. and Sheldon, D. (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS 33.

    Examples
    --------
    >>> import numpy as np
    >>> import dpstats as dp
    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.uniform(0, 1, 2000), "y": rng.uniform(0, 1, 2000)}
    >>> domain = {"x": (0, 1), "y": (0, 1)}
    >>> choice = dp.select([0.25, 0.5, 0.75], "abs(x - candidate)", rows, domain=domain, eps=1.0)
    >>> choice.chosen in ("0.25", "0.5", "0.75")
    True
    """
    privacy = check_privacy(eps, adjacency=adjacency, seed=seed, unit=unit)
    monotone = check_flag("monotone", monotone)
    named = named_candidates(candidates)
    losses = losses_of(tuple(named.values()), score, domain, 0.0 if monotone else -1.0)
    choice = PermuteAndFlip(len(named), privacy.eps, privacy.adjacency, monotone)
    guarantee = privacy.guarantee(PROOF)
    table = as_table(data)
    losses.check(table)
    check_unit(table, privacy.record)
    check_for_unit(ledger, unit, "dp.select")
    names = tuple(named)

    def work(rows: Table) -> Selection:
        total = total_losses(losses, rows, 0.0 if monotone else -1.0, privacy.record.column)
        name = names[choice.choose(total, privacy.random())]
        return Selection(name, named[name], names, score, choice, guarantee)

    return Release(
        guarantee,
        table,
        work,
        label=f"choice among {len(named)} candidates",
        method="select",
        columns=losses.columns,
        formula=score,
        domain=Domain.coerce(domain),
    ).run(ledger)


def named_candidates(candidates: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """The candidates by name: a dict's own names, else texts and numbers themselves, or their places from 1.

    ArgumentError unless they are at least two, with different names.
    """
    if isinstance(candidates, (str, bytes)) or not isinstance(candidates, (Mapping, Sequence)) or len(candidates) < 2:
        raise ArgumentError("candidates must be a dict or a list of at least two, such as [fit1, fit2]")
    if isinstance(candidates, Mapping):
        if not all(isinstance(name, str) for name in candidates):
            raise ArgumentError("candidates must have strings as names")
        return dict(candidates)
    named = {
        str(place) if isinstance(candidate, GLMResults) else str(candidate): candidate
        for place, candidate in enumerate(candidates, start=1)
    }
    if len(named) < len(candidates):
        raise ArgumentError("candidates must differ")
    return named


def losses_of(
    candidates: Sequence[Any], score: str, domain: Domain | Mapping[str, Any] | None, low: float = 0.0
) -> Losses:
    """The losses of rows, by the candidates' type; `low` is the least loss."""
    if not isinstance(score, str):
        raise ArgumentError(
            f"score must be a string, got {type(score).__name__}: a Python function could combine rows; write an "
            "expression that reads the name candidate"
        )
    if all(isinstance(candidate, GLMResults) for candidate in candidates):
        if domain is not None:
            raise ArgumentError("domain must be left out for fitted models, which have their own")
        return ModelLosses(tuple(candidates), score)
    return rule_losses(score, candidates, Domain.coerce(domain), low)
