"""Penalties and how to name them: ``penalty("lasso", alpha=2.0)`` or ``Lasso(2.0)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.arguments import check_type, safe_repr
from dpstats.errors import ArgumentError
from dpstats.penalties.base import Penalty
from dpstats.penalties.concave import L0, SCAD
from dpstats.penalties.convex import Bridge, ElasticNet, Lasso, Ridge
from dpstats.wording import argument, phrase

__all__ = [
    "L0",
    "SCAD",
    "Bridge",
    "ElasticNet",
    "Lasso",
    "Penalty",
    "Ridge",
    "from_dict",
    "penalty",
]


def __dir__() -> list[str]:
    return list(__all__)


_KINDS: dict[str, type[Penalty]] = {kind.name: kind for kind in (Ridge, Lasso, ElasticNet, Bridge, SCAD, L0)}


def penalty(which: str | Penalty | None, alpha: float | None = None, **parameters: Any) -> Penalty | None:
    """The penalty meant by a name and its strength, or `which` itself if it is one already.

    Parameters
    ----------
    which : {"ridge", "lasso", "elastic_net", "bridge", "scad", "l0"}, Penalty or None
        None asks for no penalty.
    alpha : float, optional
        Strength; needed with a name, not allowed otherwise.
    **parameters
        Further parameters of a named penalty, such as ``q`` or ``l1_ratio``.

    Raises
    ------
    ArgumentError
        For an unknown name or parameter, a missing strength, or a strength given twice.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.penalties.penalty("ridge", 2.0)
    Ridge(alpha=2.0)
    """
    if which is None or isinstance(which, Penalty):
        if alpha is not None or parameters:
            raise ArgumentError(
                f"alpha must not be given with {argument('penalty', which)}; name a penalty, such as 'lasso'"
            )
        return which
    if not isinstance(which, str) or which not in _KINDS:
        raise ArgumentError(f"penalty must be one of {list(_KINDS)}, a penalty object or None, got {safe_repr(which)}")
    if alpha is None:
        raise ArgumentError(
            f"alpha must be given with {argument('penalty', which)}: its strength on the sum of the losses"
            + (f", or {argument('alpha', 'auto')}" if which == "lasso" else "")
        )
    kind = _KINDS[which]
    known = list(kind.__dataclass_fields__)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ArgumentError(f"penalty {which!r} has the parameters {known}, not {unknown}")
    if "q" in known and "q" not in parameters:
        raise ArgumentError(
            "penalty 'bridge' needs its power: pass " + phrase("", shell="in Python ") + "dp.penalties.Bridge(alpha, q)"
        )
    return kind(alpha, **parameters)


def from_dict(stored: Mapping[str, Any]) -> Penalty:
    """The penalty whose `to_dict` gave `stored`.

    Raises
    ------
    ArgumentError
        If `stored` does not describe a penalty.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.penalties.from_dict(dp.penalties.Ridge(2.0).to_dict())
    Ridge(alpha=2.0)
    """
    if "name" not in stored or "alpha" not in stored:
        raise ArgumentError("a stored penalty must have the keys 'name' and 'alpha'")
    regulariser = penalty(stored["name"], **{key: value for key, value in stored.items() if key != "name"})
    assert regulariser is not None
    return regulariser


def split_curvature(whole: Penalty) -> tuple[float, Penalty | None]:
    """A convex penalty as modulus / 2 t^2 plus a penalty without curvature, or plus nothing (None).

    The quadratic part joins the objective's own, where it counts towards the curvature that privacy needs.
    """
    check_type("whole", whole, Penalty, "a penalty, such as dp.penalties.Ridge(1.0)")
    if isinstance(whole, Ridge) or (isinstance(whole, Bridge) and whole.q == 2):
        return whole.modulus, None
    if isinstance(whole, ElasticNet):
        slope = whole.alpha * whole.l1_ratio
        return whole.modulus, Lasso(slope) if slope > 0 else None
    return 0.0, whole if whole.alpha > 0 else None
