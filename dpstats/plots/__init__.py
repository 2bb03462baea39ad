"""Pictures of released values and plans on matplotlib (the extra ``plots``), which is imported when one is drawn.

Every function returns matplotlib's axes, and writes a caption below them that says what is protected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpstats.arguments import check_choice
from dpstats.plots.audits import audit, spending
from dpstats.plots.by_group import groups, persons, survival
from dpstats.plots.coefficients import coefficients, shares
from dpstats.plots.effects import effect
from dpstats.plots.plans import budget, methods
from dpstats.plots.quality import calibration, residuals, roc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "audit",
    "budget",
    "calibration",
    "coefficients",
    "effect",
    "groups",
    "methods",
    "residuals",
    "roc",
    "shares",
    "spending",
    "survival",
]


def __dir__() -> list[str]:
    return list(__all__)


OF_RESULTS: dict[str, Callable[..., Axes]] = {
    **{"coefficients": coefficients, "shares": shares, "effect": effect},
    "survival": persons,
}
OF_EVALUATIONS: dict[str, Callable[..., Axes]] = {"calibration": calibration, "residuals": residuals, "roc": roc}


def draw_result(result: Any, kind: str, **arguments: Any) -> Axes:
    """The picture of a model that is called `kind`; ArgumentError for another name."""
    check_choice("kind", kind, OF_RESULTS)
    return OF_RESULTS[kind](result, **arguments)


def draw_evaluation(evaluation: Any, kind: str | None, **arguments: Any) -> Axes:
    """The picture of an evaluation that is called `kind`, or the first it has a table for."""
    if kind is None:
        kind = next((name for name in OF_EVALUATIONS if getattr(evaluation, name) is not None), "calibration")
    check_choice("kind", kind, OF_EVALUATIONS)
    return OF_EVALUATIONS[kind](evaluation, **arguments)
