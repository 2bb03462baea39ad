"""What an audit found, as a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from dpstats.audit.bounds import FloatArray
from dpstats.audit.search import Curve
from dpstats.plots import draw_audit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Finding:
    """One event counted on fresh runs.

    Attributes
    ----------
    event : str
        The event in words.
    likely, unlikely : {"data", "neighbour"}
        Under which data set it was expected more often.
    hits, other : int
        How often it occurred under `likely` and under `unlikely`, out of `runs` each.
    runs : int
        Runs counted per data set.
    eps, divergence : float
        Lower confidence bounds: of eps at the claimed delta, and of the hockey-stick divergence at the claimed eps.
    """

    event: str
    likely: str
    unlikely: str
    hits: int
    other: int
    runs: int
    eps: float
    divergence: float


@dataclass(frozen=True)
class HockeyStick:
    """The divergence sup over events S of P(S) - exp(eps) Q(S) at the claimed eps: what delta must be at least.

    Attributes
    ----------
    estimate : float
        The plug-in value for the chosen event.
    lower : float
        Its lower confidence bound; the claim is refuted if it exceeds the claimed delta.
    """

    estimate: float
    lower: float


@dataclass(frozen=True)
class Picture:
    """What the plot shows: the bound by threshold, and the score's histograms on the two data sets."""

    curve: Curve
    edges: FloatArray
    counts: tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on the privacy loss of a mechanism, from its outputs alone.

    Attributes
    ----------
    eps, delta : float
        The claim.
    eps_lower : float
        Lower confidence bound on eps at the claimed delta.
    hockey_stick : HockeyStick
        The divergence at the claimed eps.
    passed : bool
        False if a bound refutes the claim. True means that these runs do not refute it, never that it is proved.
    event : str
        The event that gives `eps_lower`.
    runs : int
        Runs per data set; half chose the events, half counted them.
    confidence : float
        The probability, at least, that all bounds hold together.
    findings : tuple of Finding
        The events counted, most telling first.
    picture : Picture
        The data of `plot`.
    """

    eps: float
    delta: float
    eps_lower: float
    hockey_stick: HockeyStick
    passed: bool
    event: str
    runs: int
    confidence: float
    findings: tuple[Finding, ...] = field(repr=False)
    picture: Picture = field(repr=False)

    def summary(self) -> Summary:
        """The result as tables of at most 80 columns."""
        verdict = "not refuted" if self.passed else "REFUTED"
        rows = [
            ["Claimed epsilon:", f"{self.eps:.4g}", "Runs per data set:", f"{self.runs:,}"],
            ["Claimed delta:", f"{self.delta:.4g}", "Confidence:", f"{self.confidence:g}"],
            ["Epsilon at least:", f"{self.eps_lower:.4g}", "Hockey-stick at least:", f"{self.hockey_stick.lower:.3g}"],
            ["The claim is", verdict, "Hockey-stick estimate:", f"{self.hockey_stick.estimate:.3g}"],
        ]
        events = [[_short(f.event), f.likely, str(f.hits), str(f.other), f"{f.eps:.4g}"] for f in self.findings]
        head = ["event", "likely under", "hits", "other", "eps >="]
        out = Summary()
        out.tables = [
            SimpleTable(rows, title="Audit of a privacy claim", txt_fmt={"data_aligns": "lrlr", "colsep": "  "}),
            SimpleTable(events, headers=head, txt_fmt={"data_aligns": "llrrr", "header_align": "l", "colsep": "  "}),
        ]
        out.add_extra_txt([f"hits, other: of {self.findings[0].runs:,} fresh runs on each data set."])
        return out

    def __str__(self) -> str:
        return self.summary().as_text()

    def plot(self, what: str = "bounds", *, ax: Axes | None = None) -> Axes:
        """Draw lower bounds on eps by threshold, or the "scores" on both data sets; see `dpstats.plots.audit`."""
        return draw_audit(self, what=what, ax=ax)


def _short(text: str, width: int = 44) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def picture_of(curve: Curve, first: FloatArray, second: FloatArray) -> Picture:
    """Histograms of one score over the central 99 % of both samples; NaN is left out."""
    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    low, high = np.quantile(np.concatenate([first, second]), [0.005, 0.995]) if len(first) + len(second) else (0, 1)
    edges = np.linspace(low, high if high > low else low + 1, 61)
    counts = [np.histogram(side, edges)[0].astype(np.float64) for side in (first, second)]
    return Picture(curve, edges, (counts[0], counts[1]))
