"""Losses: each declares its derivatives, its caps and the curve on which privacy is calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.arguments import check_flag, near_miss, safe_repr
from dpstats.errors import ArgumentError
from dpstats.families.base import Derivatives, Family, LossCurve
from dpstats.families.binomial import Binomial, BinomialCounts
from dpstats.families.gaussian import Gaussian
from dpstats.families.hazard import PiecewiseExponential
from dpstats.families.negative_binomial import NegativeBinomial
from dpstats.families.ordinal import CumulativeLogit
from dpstats.families.poisson import Poisson
from dpstats.families.quantile import Quantile
from dpstats.families.svm import HuberSVM, SmoothSVM
from dpstats.wording import argument, phrase

NAMES = {
    "logit": "binomial",
    "logistic": "binomial",
    "bernoulli": "binomial",
    "log_loss": "binomial",
    "normal": "gaussian",
    "linear": "gaussian",
    "ols": "gaussian",
    "squared_error": "gaussian",
    "count": "poisson",
    "nb2": "negative_binomial",
    "negativebinomial": "negative_binomial",
    "negbin": "negative_binomial",
    "quantreg": "quantile",
    "median": "quantile",
    "svm": "huber_svm",
    "hinge": "huber_svm",
}
"""What others call a family that is here."""

LINKS = {
    "Binomial": ("binomial", "Logit"),
    "Gaussian": ("gaussian", "Identity"),
    "Poisson": ("poisson", "Log"),
    "NegativeBinomial": ("negative_binomial", "Log"),
}
"""Classes of statsmodels, the family that each is here, and the link that it has here."""


def not_offered() -> dict[str, str]:
    """Families that are not offered, and why (docs/proofs/families, What is not offered)."""
    logit = argument("family", "binomial")
    alone = phrase("is for dp.glm and dp.plan alone", shell="is for dp.glm and dp.plan, in Python")
    several = f"it has an equation for each class: {argument('family', 'multinomial')} {alone}"
    return {
        "gamma": "its slope grows with y exp(-eta) without bound; fit the logarithm by least squares, such as "
        f"np.log(y) ~ x, or {argument('family', 'poisson')} with {argument('inference', 'robust')}, which fits means "
        "with the same log link",
        "inversegaussian": "its slope grows with y exp(-2 eta) without bound, and its loss is not convex with a log "
        "link",
        "tweedie": "its slope grows without bound",
        "quasibinomial": f"take {logit} with {argument('inference', 'robust')}",
        "quasipoisson": f"take {argument('family', 'poisson')}, whose errors have a dispersion",
        "probit": f"its slope grows with the linear predictor without bound; {logit} has the logit link",
        "multinomial": several,
        "mnlogit": several,
        "cloglog": f"its slope grows like exp(eta) without bound; {logit} has the logit link",
    }


def known_name(family: object) -> object:
    """The name here of a family that another package made or names; anything else as it is.

    Raises ArgumentError if it is a family of theirs that has no counterpart, or one with another link.
    """
    if isinstance(family, str):
        if family in _BY_NAME:
            return family
        name = family.strip().lower()
        refuse(name.replace("_", "").replace(" ", ""))
        return NAMES.get(name, name)
    kind = family if isinstance(family, type) else type(family)
    home = kind.__module__
    if home.startswith("sklearn."):
        raise ArgumentError(
            f"family must be a name, not scikit-learn's {kind.__name__}, whose other settings would be ignored: "
            f"{argument('family', 'binomial')} is logistic regression, and {argument('penalty', 'ridge')}, "
            f"{argument('alpha')}... its penalty"
        )
    if home.startswith("dpstats.families"):
        return getattr(kind, "name", family)
    if not home.startswith("statsmodels.genmod.families"):
        return family
    refuse(kind.__name__.lower())
    if kind.__name__ not in LINKS:
        raise ArgumentError(f"family {kind.__name__} of statsmodels has no counterpart; use one of {sorted(LINKS)}")
    name, link = LINKS[kind.__name__]
    given = "" if isinstance(family, type) else type(getattr(family, "link", None)).__name__
    if given.lower() not in ("", link.lower()):
        raise ArgumentError(f"family {kind.__name__} has only the link {link}, got {given}")
    return name


def refuse(name: str) -> None:
    """Raise ArgumentError for a family whose loss curve has no bound, or none that is proved."""
    if (reason := not_offered().get(name)) is not None:
        raise ArgumentError(f"family {name!r} is not offered: {reason}")


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
    "Quantile",
    "SmoothSVM",
    "from_dict",
    "get_family",
]


def __dir__() -> list[str]:
    return list(__all__)


_BY_NAME: dict[str, type[Family]] = {
    "gaussian": Gaussian,
    "binomial": Binomial,
    "binomial_counts": BinomialCounts,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "quantile": Quantile,
    "huber_svm": HuberSVM,
    "smooth_svm": SmoothSVM,
}

_OF_PIECES: dict[Any, type[Family]] = {kind.name: kind for kind in (CumulativeLogit, PiecewiseExponential)}
"""Their rows are pieces of records, which dp.ordinal and dp.hazard alone make: no call names them."""


def _refuse_pieces(family: Any) -> None:
    """Raise ArgumentError for a family whose bounds are proved for the pieces that its own verb makes of records."""
    name = family.strip().lower() if isinstance(family, str) else getattr(family, "name", None)
    kind = family if isinstance(family, type) else type(family)
    verb = next((own for own, base in _OF_PIECES.items() if own == name or issubclass(kind, base)), None)
    if verb is not None:
        call = {
            "hazard": "dp.hazard('Surv(time, event) ~ x', data, eps)",
            "ordinal": "dp.ordinal('y ~ x', data, eps)",
        }[verb]
        where = phrase("call", shell="in Python call")
        raise ArgumentError(
            f"family {verb!r} needs its own function, which divides each record into several rows: {where} {call}, "
            "without a family"
        )


def get_family(family: Any, *, of_pieces: bool = False) -> Family:
    """A family by name, with its default caps, or the family itself.

    Names of statsmodels, R and scikit-learn are accepted too ("logistic", "normal"), as are families of statsmodels,
    such as ``sm.families.Binomial()``, with the links offered here. The families of `dpstats.hazard` and
    `dpstats.ordinal` are refused, as their bounds are those of the rows that these calls make; with `of_pieces` they
    are not.

    Raises
    ------
    ArgumentError
        If `family` is neither a Family nor one of the known names, or is one of pieces.

    Examples
    --------
    >>> import dpstats as dp
    >>> dp.families.get_family("binomial").name
    'binomial'
    """
    if not check_flag("of_pieces", of_pieces):
        _refuse_pieces(family)
    if isinstance(family, Family):
        if family.name not in _BY_NAME:  # a user's own
            refuse(family.name)
        return family
    name = known_name(family)
    if not isinstance(name, str) or name not in _BY_NAME:
        near = near_miss(name, [*_BY_NAME, *NAMES]) if isinstance(name, str) else None
        hint = "" if near is None else f", did you mean {NAMES.get(near, near)!r}?"
        made = phrase(", or an object such as dp.families.Poisson(y_max=20)", shell="")
        raise ArgumentError(f"family must be one of {sorted(_BY_NAME)}{made}; got {safe_repr(family)}{hint}")
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
    name = caps.pop("name", None)
    kind = _OF_PIECES.get(name) or type(get_family(name))
    try:
        return kind(**caps)
    except TypeError:
        raise ArgumentError(f"family {kind.name!r} has no caps {sorted(caps)}") from None
