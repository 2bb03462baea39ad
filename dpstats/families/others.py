"""Families as statsmodels, scikit-learn and R name them."""

from __future__ import annotations

from dpstats.errors import ArgumentError

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

UNBOUNDED = {
    "gamma": "its slope grows with y exp(-eta) without bound",
    "inversegaussian": "its slope grows with y exp(-2 eta) without bound, and its loss is not convex with a log link",
    "tweedie": "its slope grows without bound",
    "quasibinomial": "take family='binomial' with inference='robust'",
    "quasipoisson": "take family='poisson', whose errors have a dispersion",
    "probit": "its slope grows with the linear predictor without bound; family='binomial' has the logit link",
    "cloglog": "its slope grows like exp(eta) without bound; family='binomial' has the logit link",
}
"""What is not offered, and why (docs/proofs/families, What is not offered)."""


def known_name(family: object) -> object:
    """The name here of a family that another package made or names; anything else as it is.

    Raises
    ------
    ArgumentError
        If it is a family of theirs that has no counterpart, or one with another link.
    """
    if isinstance(family, str):
        name = family.strip().lower()
        refuse(name.replace("_", "").replace(" ", ""))
        return NAMES.get(name, name)
    kind = family if isinstance(family, type) else type(family)
    home = kind.__module__
    if home.startswith("sklearn."):
        raise ArgumentError(
            f"family must be a name, not scikit-learn's {kind.__name__}, whose other settings would be lost: "
            "family='binomial' is logistic regression, and penalty='ridge', alpha=... its penalty"
        )
    if home.startswith("dpstats.families"):
        return getattr(kind, "name", family)
    if not home.startswith("statsmodels.genmod.families"):
        return family
    refuse(kind.__name__.lower())
    if kind.__name__ not in LINKS:
        raise ArgumentError(f"family {kind.__name__} of statsmodels has no counterpart; take one of {sorted(LINKS)}")
    name, link = LINKS[kind.__name__]
    given = "" if isinstance(family, type) else type(getattr(family, "link", None)).__name__
    if given.lower() not in ("", link.lower()):
        raise ArgumentError(f"family {kind.__name__} has the link {link} here and no other, got {given}")
    return name


def refuse(name: str) -> None:
    """Raise ArgumentError for a family whose loss curve has no bound, or none that is proved."""
    if name in UNBOUNDED:
        raise ArgumentError(f"family {name!r} is not offered: {UNBOUNDED[name]}")
