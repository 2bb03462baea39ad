"""The demonstration that ``make demo`` runs: a private income model of the Adult census data."""

from __future__ import annotations

from dpstats.api import logit
from dpstats.datasets import load_adult
from dpstats.results.glm_results import GLMResults

FORMULA = "income ~ age + education_num + hours_per_week + sex + marital_status + np.log1p(capital_gain)"
EPS = 1.0


def fit_adult() -> GLMResults:
    """Who earns more than $50,000? A logistic regression on the Adult training rows, pure eps = 1."""
    adult = load_adult()
    return logit(FORMULA, adult.data, EPS, domain=adult.domain, inference=True)


def main() -> None:
    """Fit the Adult model and print its summary."""
    print("dpstats demo: who earns more than $50,000? (1994 US census)".center(78))
    print("One private fit; run it again and the noise is fresh.".center(78))
    print()
    print(fit_adult().summary())


if __name__ == "__main__":
    main()
