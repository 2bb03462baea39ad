"""Losses: each declares its derivatives, its caps and the curve on which privacy is calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.arguments import shown
from dpstats.errors import ArgumentError
from dpstats.families.base import Derivatives, Family, LossCurve
from dpstats.families.binomial import Binomial, BinomialCounts
from dpstats.families.gaussian import Gaussian
from dpstats.families.negative_binomial import NegativeBinomial
from dpstats.families.others import known_name
from dpstats.families.poisson import Poisson
from dpstats.families.svm import HuberSVM, SmoothSVM

__all__ = [
    "Binomial",
    "BinomialCounts",
    "Derivatives",
    "Family",
    "Gaussian",
    "HuberSVM",
    "LossCurve",
    "NegativeBinomial",
    "Poisson",
    "SmoothSVM",
    "from_dict",
    "get_family",
]

_BY_NAME: dict[str, type[Family]] = {
    "gaussian": Gaussian,
    "binomial": Binomial,
    "binomial_counts": BinomialCounts,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "huber_svm": HuberSVM,
    "smooth_svm": SmoothSVM,
}


def get_family(family: Any) -> Family:
    """A family by name, with its default caps, or the family itself.

    Names of statsmodels, R and scikit-learn are taken too ("logistic", "normal"), and statsmodels' families, such as
    ``sm.families.Binomial()``, with the links that are offered here.

    Raises
    ------
    ArgumentError
        If `family` is neither a Family nor one of the known names.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.families.get_family("binomial").name
    'binomial'
    """
    if isinstance(family, Family):
        return family
    name = known_name(family)
    if not isinstance(name, str) or name not in _BY_NAME:
        names = f"one of {sorted(_BY_NAME)}, or an object such as dp.families.Poisson(y_max=20)"
        raise ArgumentError(f"family must be {names}; got {shown(family)}")
    if name == "negative_binomial" and not isinstance(family, (str, type)):
        return NegativeBinomial(float(getattr(family, "alpha", 1.0)))
    return _BY_NAME[name]()


def from_dict(values: Mapping[str, Any]) -> Family:
    """The family that `Family.to_dict` described.

    Raises
    ------
    ArgumentError
        If the name is unknown or a cap does not belong to that family.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.families.from_dict(dp.families.Gaussian(2.0).to_dict())
    Gaussian(residual_cap=2.0)
    """
    caps = dict(values)
    kind = type(get_family(caps.pop("name", None)))
    try:
        return kind(**caps)
    except TypeError:
        raise ArgumentError(f"family {kind.name!r} has no caps {sorted(caps)}") from None
