"""Where should the weights of the information be capped, how much does it show, and do intervals still cover?

``python -m benchmarks.defaults.information_caps [shares|coverage|uncorrected|observed|rare] [repeats] [names]``.

The multiple of the mean was chosen on `CHOOSING` and is reported on `REPORTED`. ``shares`` has the share of
coefficients with a bounded interval and the deviance explained in sample, which noise alone moves here. ``coverage``
simulates counts whose coefficients are known, some with covariates that the made-up rows of docs/proofs/inference, 13,
do not resemble, and ``uncorrected`` leaves these rows out; ``observed`` does so with the covariates of two data sets,
and ``rare`` for rare outcomes of a logistic regression.
All settings see the same data sets and the same seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.defaults import mean_caps
from benchmarks.prediction import randhie

CHOOSING = ("RAND", "NMES1988", "azpro", "crime1", "fertil2")
REPORTED = ("rwm5yr", "DoctorVisits")
MULTIPLES = (np.inf, 6.0, 4.0, 3.0, 2.0)
"""Of the bought mean; infinite: no cap."""
CAPS = {"coverage": ("inf", "3", "2"), "uncorrected": ("2, uncorrected",)}
"""Multiples that are simulated, by part."""
BUDGETS = (1.0, 3.0)
COUNTED = "rows counted"
"""By default, once 3 % of eps have counted the rows: with their number the plan settles whether errors are paid for."""
REPEATS = 10
RUNS = 200
MOST = 100
"""The greatest count that is declared in simulations."""

Random = np.random.Generator
Float = np.ndarray


@contextmanager
def capped_at(multiple: float) -> Iterator[None]:
    """The package with another default multiple of the mean, or none."""
    with mock.patch("dpstats.mechanisms.spec.TIMES_MEAN", multiple):
        yield


def shown(name: str, eps: float, multiple: float, inference: Any, repeats: int) -> tuple[float, float, float]:
    """Share of coefficients with an interval, its standard error over seeds, and the deviance explained."""
    found = (mean_caps.TASKS | mean_caps.CHECKED)[name]()
    counts = found.frame[found.formula.split(" ~ ")[0]].to_numpy(float)
    whole = randhie.deviance(counts, float(counts.mean()))
    shares, explained = [], []
    for seed in range(repeats):
        settings: dict[str, Any] = {"domain": found.domain, "seed": seed, "allow_uncertified": True}
        settings |= {"check_share": 0.03} if inference == COUNTED else {"inference": inference}
        with capped_at(multiple):
            fit = dp.poisson(found.formula, found.frame, eps, **settings)
        shares.append(float(np.isfinite(fit.bse).mean()) if fit.has_errors else 0.0)
        means = np.clip(fit.predict(found.frame).to_numpy(), 1e-9, 1e9)
        explained.append(1 - randhie.deviance(counts, means) / whole)
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(repeats)), float(np.mean(explained))


class Truth(NamedTuple):
    """How x and z are drawn, the coefficients, and how responses spread about their mean."""

    x: Callable[[int, Random], Float]
    z: Callable[[int, Random], Float]
    coefficients: Mapping[str, float]
    levels: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    dispersion: float = 0.0

    def rows(self, number: int, random: Random) -> tuple[pd.DataFrame, Float]:
        """Covariates, and their linear predictors."""
        frame = pd.DataFrame({"x": self.x(number, random), "z": self.z(number, random)})
        frame["b"] = (random.random(number) < 0.3).astype(float)
        frame["g"] = random.choice(len(self.levels), size=number, p=self.levels)
        beta = self.coefficients
        eta = beta["Intercept"] + sum(beta[name] * frame[name].to_numpy() for name in ("x", "z", "b"))
        return frame, eta + np.array([0.0, *(beta[f"g[T.{level}]"] for level in (1, 2, 3))])[frame["g"]]

    def counts(self, number: int, random: Random) -> pd.DataFrame:
        """Rows with counts y, Poisson but for the dispersion."""
        frame, eta = self.rows(number, random)
        spread = random.gamma(1 / self.dispersion, self.dispersion, number) if self.dispersion else 1.0
        return frame.assign(y=random.poisson(np.exp(eta) * spread))

    def outcomes(self, number: int, random: Random) -> pd.DataFrame:
        """Rows with outcomes y of 0 and 1."""
        frame, eta = self.rows(number, random)
        return frame.assign(y=(random.random(number) < 1 / (1 + np.exp(-eta))).astype(int))


def uniform(number: int, random: Random) -> Float:
    return random.uniform(0, 1, number)


def skew(number: int, random: Random) -> Float:
    return np.minimum(random.exponential(0.12, number), 1.0)


def two_humps(number: int, random: Random) -> Float:
    return np.where(random.random(number) < 0.2, random.uniform(0.8, 1, number), random.uniform(0, 0.3, number))


PLAIN = {"Intercept": 0.3, "x": 0.8, "z": -0.5, "b": 0.3, "g[T.1]": 0.2, "g[T.2]": -0.3, "g[T.3]": 0.4}
TRUTHS = {
    "plain": Truth(uniform, uniform, PLAIN),
    "steep": Truth(uniform, uniform, PLAIN | {"Intercept": 0.2, "x": 2.0, "z": -1.5}),
    "two groups": Truth(uniform, uniform, PLAIN | {"Intercept": -0.2, "b": 2.0}),
    "skew x": Truth(skew, uniform, PLAIN | {"Intercept": 0.0, "x": 3.0}),
    "two humps": Truth(two_humps, uniform, PLAIN | {"Intercept": -0.5, "x": 2.0}),
    "rare and steep": Truth(uniform, skew, PLAIN | {"Intercept": -2.5, "x": 1.5, "z": 2.0, "b": 1.0}),
    "overdispersed": Truth(uniform, uniform, PLAIN, dispersion=1.0),
    "a rare level": Truth(uniform, uniform, PLAIN | {"g[T.3]": 1.5}, levels=(0.6, 0.3, 0.05, 0.05)),
}
RARE = {
    "2 in 100": Truth(uniform, uniform, PLAIN | {"Intercept": -4.3}),
    "2 in 100, steep": Truth(skew, uniform, PLAIN | {"Intercept": -4.9, "x": 3.0, "b": 1.0}),
}
DOMAIN: dict[str, Any] = {"x": (0, 1), "z": (0, 1), "b": (0, 1), "g": [0, 1, 2, 3]}
FORMULA = "y ~ x + z + b + g"


class Observed(NamedTuple):
    """The covariates of a data set, with counts simulated by its own fit: as dispersed, with a log link throughout."""

    formula: str
    frame: pd.DataFrame
    domain: Mapping[str, Any]
    coefficients: Mapping[str, float]
    means: Float
    dispersion: float

    @classmethod
    def of(cls, name: str) -> Observed:
        import statsmodels.formula.api as smf

        found = (mean_caps.TASKS | mean_caps.CHECKED)[name]()
        frame = found.frame.copy()
        for column, declared in found.domain.items():
            if isinstance(declared, list):
                frame[column] = pd.Categorical(frame[column], categories=declared)
        response = found.formula.split(" ~ ")[0]
        exact = smf.poisson(found.formula, frame).fit(disp=False)
        means = np.asarray(exact.predict(frame))
        excess = (frame[response].to_numpy(float) - means) ** 2 - means
        dispersion = float(np.sum(excess) / np.sum(means**2))
        return cls(found.formula, frame, found.domain, dict(exact.params), means, dispersion)

    def counts(self, random: Random) -> pd.DataFrame:
        """The rows with other counts."""
        spread = random.gamma(1 / self.dispersion, self.dispersion, len(self.means))
        return self.frame.assign(**{self.formula.split(" ~ ")[0]: random.poisson(self.means * spread)})


class Covered(NamedTuple):
    """Coverage of 95 % intervals over runs: of those shown, of the worst coefficient, and with unbounded ones too."""

    shown: float
    pooled: float
    least: float
    unconditional: float
    width: float
    bias: float  # of the worst coefficient, in its own standard deviations

    @classmethod
    def of(cls, runs: list[Float]) -> Covered:
        """From arrays (errors, lower ends less truth, upper ends less truth) of each run, shape (3, coefficients)."""
        errors, low, high = np.moveaxis(np.array(runs), 1, 0)
        inside, bounded = (low <= 0) & (high >= 0), np.isfinite(high - low)
        often = bounded.mean(axis=0) >= 0.9
        each = (inside & bounded).sum(axis=0) / np.maximum(bounded.sum(axis=0), 1)
        least = float(each[often].min()) if often.any() else np.nan
        widths = np.where(bounded, high - low, np.inf)
        bias = np.abs(errors.mean(axis=0)) / errors.std(axis=0)
        return cls(
            float(bounded.mean()),
            float((inside & bounded).sum() / max(bounded.sum(), 1)),
            least,
            float(inside.mean()),
            float(np.median(widths)),
            float(bias.max()),
        )


def measure(fit: Any, truth: Mapping[str, float]) -> Float:
    """Errors and ends of the intervals less the truth."""
    ends = fit.conf_int()
    exact = np.array([truth[name] for name in ends.index])
    debiased = fit.debiased[ends.index].to_numpy()
    return np.array([debiased - exact, ends.iloc[:, 0].to_numpy() - exact, ends.iloc[:, 1].to_numpy() - exact])


def coverage(name: str, number: int, eps: float, runs: int, caps: tuple[str, ...]) -> dict[str, Covered]:
    """By multiple of the mean, perhaps without what the made-up rows make up for."""
    truth, found = TRUTHS[name], {cap: [] for cap in caps}
    settings: dict[str, Any] = {"domain": DOMAIN | {"y": (0, MOST)}, "inference": True, "allow_uncertified": True}
    for run in range(runs):
        rows = truth.counts(number, np.random.default_rng(run))
        for setting, kept in found.items():
            with capped_at(float(setting.split(",")[0])):
                fit = dp.poisson(FORMULA, rows, eps, seed=run, **settings)
            with uncapped() if "," in setting else capped_at(2.0):
                if fit.has_errors:
                    kept.append(measure(fit, truth.coefficients))
    return {setting: Covered.of(kept) for setting, kept in found.items() if kept}


def observed_coverage(name: str, eps: float, runs: int, inference: Any) -> dict[str, Covered]:
    """By multiple of the mean, on the covariates of a data set."""
    source = Observed.of(name)
    found: dict[str, list[Float]] = {"inf": [], "3": [], "2": []}
    settings: dict[str, Any] = {"domain": source.domain, "inference": inference, "allow_uncertified": True}
    for run in range(runs):
        rows = source.counts(np.random.default_rng(run))
        for setting, kept in found.items():
            with capped_at(float(setting)):
                fit = dp.poisson(source.formula, rows, eps, seed=run, **settings)
                if fit.has_errors:
                    kept.append(measure(fit, source.coefficients))
    return {setting: Covered.of(kept) for setting, kept in found.items() if kept}


@contextmanager
def uncapped() -> Iterator[None]:
    """Errors that take the capped information for the whole."""
    from dpstats.results import standard_errors

    whole = standard_errors.response_of
    with mock.patch.object(standard_errors, "response_of", lambda plan, weight_cap=None: whole(plan)):
        yield


def rare(name: str, number: int, eps: float, runs: int) -> dict[str, Covered]:
    """Logistic regression of rare outcomes, under caps of p (1 - p), whose mean is .02."""
    truth = RARE[name]
    found: dict[str, list[Float]] = {"none": [], "0.12": [], "0.06": [], "0.04": []}
    settings: dict[str, Any] = {"domain": DOMAIN | {"y": [0, 1]}, "inference": True, "allow_uncertified": True}
    for run in range(runs):
        rows = truth.outcomes(number, np.random.default_rng(run))
        for setting, kept in found.items():
            cap = None if setting == "none" else float(setting)
            fit = dp.logit(FORMULA, rows, eps, seed=run, information_cap=cap, **settings)
            if fit.has_errors:
                kept.append(measure(fit, truth.coefficients))
    return {setting: Covered.of(kept) for setting, kept in found.items() if kept}


def print_shares(repeats: int, names: list[str]) -> None:
    print("data | eps | inference |", " | ".join(f"{multiple:g}" for multiple in MULTIPLES), "| explained: none, 2")
    for name in names or (*CHOOSING, *REPORTED):
        for eps in BUDGETS:
            for inference in ("auto", COUNTED, True):
                cells = [shown(name, eps, multiple, inference, repeats) for multiple in MULTIPLES]
                found = [f"{share:.2f} ± {error:.2f}" for share, error, _ in cells]
                print(
                    name, f"{eps:g}", inference, *found, f"{cells[0][2]:.3f}, {cells[-1][2]:.3f}", sep=" | ", flush=True
                )


def print_coverage(found: Mapping[str, Covered], *labels: str) -> None:
    for setting, cover in found.items():
        print(*labels, setting, *(f"{value:.3f}" for value in cover), sep=" | ", flush=True)


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "shares"
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else (REPEATS if what == "shares" else RUNS)
    names = sys.argv[3:]
    if what == "shares":
        print_shares(repeats, names)
        return
    if what == "observed":
        print("covariates | eps | inference | cap | shown | pooled | least | unconditional | width | greatest bias")
        for name in names or REPORTED:
            for eps in BUDGETS:
                for inference in ("auto", True):
                    found = observed_coverage(name, eps, repeats, inference)
                    print_coverage(found, name, f"{eps:g}", str(inference))
        return
    print("simulated | n | eps | cap | shown | pooled | least | unconditional | width | greatest bias")
    for name in names or (RARE if what == "rare" else TRUTHS):
        if what == "rare":
            for number in (5_000, 10_000):
                print_coverage(rare(name, number, 1.0, repeats), name, f"{number:,}", "1")
            continue
        for number, eps in ((20_000, 1.0), (10_000, 3.0)):
            print_coverage(coverage(name, number, eps, repeats, CAPS[what]), name, f"{number:,}", f"{eps:g}")


if __name__ == "__main__":
    main()
