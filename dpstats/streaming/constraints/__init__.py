"""Constraint sets of coefficients: projection, Minkowski functional, Gaussian width (docs/proofs/geometry).

>>> from dpstats.streaming.constraints import L1Ball
>>> L1Ball(1.0).project([2.0, -1.5, 0.1])
array([ 0.75, -0.25,  0.  ])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.errors import ArgumentError
from dpstats.streaming.constraints.sets import Constraint, GroupL1, Hull, L1Ball, L2Ball, LpBall, Simplex

__all__ = ["Constraint", "GroupL1", "Hull", "L1Ball", "L2Ball", "LpBall", "Simplex", "from_dict"]


def __dir__() -> list[str]:
    return list(__all__)


_KINDS: dict[str, type[Constraint]] = {kind.name: kind for kind in (L2Ball, L1Ball, Simplex, GroupL1, LpBall, Hull)}


def from_dict(stored: Mapping[str, Any]) -> Constraint:
    """The constraint whose `to_dict` gave `stored`.

    Raises
    ------
    ArgumentError
        If `stored` does not describe a constraint.

    Examples
    --------
    >>> from_dict({"name": "l1", "radius": 2.0})
    L1Ball(radius=2.0)
    """
    arguments = dict(stored) if isinstance(stored, Mapping) else {}
    kind = _KINDS.get(str(arguments.pop("name", None)))
    if kind is None:
        raise ArgumentError(f"a stored constraint must have a 'name' among {list(_KINDS)}")
    try:
        return kind(**arguments)
    except TypeError:
        raise ArgumentError(f"a stored constraint {kind.name!r} has other parameters than this version") from None
