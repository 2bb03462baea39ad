"""`ReleasedStatistics.iv`: two-stage least squares and Anderson-Rubin sets at no charge."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp

DOMAIN = {"y": (-4, 6), "x": (-3, 3), "z1": (-1, 1), "z2": (0, 1), "w": (0, 1), "g": ["u", "v", "w"]}
FORMULA = "y ~ x + w + g | z1 + z2 + w + g"


def frame(rows: int, seed: int = 0, strength: float = 1.0) -> pd.DataFrame:
    """The coefficient of x is .7, and what is not seen moves x and y apart."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"z1": rng.uniform(-1, 1, rows), "z2": rng.integers(0, 2, rows), "w": rng.uniform(0, 1, rows)})
    found["g"] = rng.choice(["u", "v", "w"], rows)
    hidden = 0.3 * rng.normal(size=rows)
    found["x"] = strength * (0.5 * found["z1"] + 0.4 * found["z2"]) + 0.3 * found["w"] + hidden
    found["x"] += 0.3 * rng.normal(size=rows)
    found["y"] = 1 + 0.7 * found["x"] + 0.5 * found["w"] - hidden + 0.3 * rng.normal(size=rows)
    return found


def release(data: pd.DataFrame, eps: float, seed: int = 1, **more: Any) -> dp.ReleasedStatistics:
    return dp.release_statistics(DOMAIN, list(DOMAIN), eps, data=data, seed=seed, **more)


@pytest.fixture(scope="module")
def clear() -> dp.ReleasedStatistics:
    """Hardly any noise."""
    return release(frame(4000), 1e5)


@pytest.mark.slow
def test_without_noise_it_is_what_others_compute(clear: dp.ReleasedStatistics) -> None:
    iv = pytest.importorskip("linearmodels.iv")
    right = iv.IV2SLS.from_formula("y ~ 1 + w + C(g) + [x ~ z1 + z2]", frame(4000)).fit(cov_type="unadjusted")
    fit = clear.iv(FORMULA)
    assert fit.debiased["x"] == pytest.approx(right.params["x"], abs=1e-3)
    assert fit.bse["x"] == pytest.approx(right.std_errors["x"], rel=5e-3)
    assert fit.debiased["w"] == pytest.approx(right.params["w"], abs=2e-3)
    assert fit.first_stage.loc["x", "F"] == pytest.approx(right.first_stage.diagnostics["f.stat"].iloc[0], rel=5e-3)
    assert fit.j_stat.statistic == pytest.approx(right.sargan.stat, abs=0.02)


def test_it_is_what_the_formulas_say(clear: dp.ReleasedStatistics) -> None:
    data = frame(4000)
    one, dummies = np.ones(len(data)), pd.get_dummies(data["g"], drop_first=True).to_numpy(float)
    x = np.column_stack([one, dummies, data["x"], data["w"]])
    z = np.column_stack([one, dummies, data["z1"], data["z2"], data["w"]])
    fitted = z @ np.linalg.lstsq(z, x, rcond=None)[0]
    coef = np.linalg.solve(fitted.T @ x, fitted.T @ data["y"])
    variance = np.sum((data["y"] - x @ coef) ** 2) / (len(data) - 5)
    fit = clear.iv(FORMULA)
    assert fit.debiased.to_numpy() == pytest.approx(coef, abs=2e-3)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(fitted.T @ fitted)))
    assert fit.bse.to_numpy() == pytest.approx(errors, rel=5e-3)
    assert fit.params.to_numpy() == pytest.approx(fit.debiased.to_numpy())
    assert fit.predict(data.head(20)).to_numpy() == pytest.approx(x[:20] @ coef, abs=5e-3)
    test = fit.ar_test(0.7)
    rest, controls = data["y"] - 0.7 * data["x"], np.column_stack([one, dummies, data["w"]])
    null, whole = (np.sum((rest - b @ np.linalg.lstsq(b, rest, rcond=None)[0]) ** 2) for b in (controls, z))
    assert test.statistic == pytest.approx((null - whole) / (null / (len(data) - 4)), abs=0.02)
    assert test.df == 2


def test_several_endogenous_columns(clear: dp.ReleasedStatistics) -> None:
    fit = clear.iv("y ~ x + w | z1 + z2")
    assert fit.endogenous == ("x", "w")
    assert fit.excluded == ("z1", "z2")
    assert fit.ar_test([0.7, 0.5]).df == 2
    assert list(fit.first_stage.index) == ["x", "w"]
    assert fit.first_stage.loc["w", "F"] < 10
    assert "Instruments are weak for w" in str(fit)
    with pytest.raises(dp.errors.ArgumentError, match="one endogenous column"):
        fit.ar_conf_int()
    with pytest.raises(dp.errors.ArgumentError, match="more instruments"):
        _ = fit.j_stat
    over = clear.iv("y ~ x + w | z1 + z2 + g")
    assert over.j_stat.df == 2
    assert over.j_stat.statistic <= over.ar_test([0.7, 0.5]).statistic


def test_a_factor_may_be_endogenous_or_an_instrument(clear: dp.ReleasedStatistics) -> None:
    assert clear.iv("y ~ x | g").excluded == ("g[T.v]", "g[T.w]")
    assert clear.iv("y ~ g | z1 + z2").endogenous == ("g[T.v]", "g[T.w]")


def test_tables_and_tests_are_those_of_other_models(clear: dp.ReleasedStatistics) -> None:
    for fit in (clear.iv(FORMULA), clear.fit("y ~ x + w")):
        tidy, glance = fit.tidy().set_index("term"), fit.glance().loc[0]
        assert tidy.loc["x", "estimate"] == fit.debiased["x"]
        assert tidy.loc["x", "conf_low"] == fit.conf_int().loc["x", 0]
        assert glance["nobs"] == 4000
        text, rows = fit.t_test("x - w = 0.2"), np.array([name == "x" for name in fit.params.index], dtype=float)
        rows[list(fit.params.index).index("w")] = -1
        assert text.pvalue == pytest.approx(fit.t_test(rows, 0.2).pvalue)
        assert fit.t_test(["x = 1", "w = 0"]).effect.shape == (2,)
        assert fit.wald_test("x = 0, w = 0").df_constraint == 2
    assert clear.iv(FORMULA).glance().loc[0, "method"] == "2sls"
    lasso = clear.fit("y ~ x", penalty="lasso", alpha=1.0).tidy()
    assert lasso.columns.tolist() == clear.fit("y ~ x").tidy().columns.tolist()
    assert lasso.drop(columns=["term", "estimate", "released"]).isna().all(axis=None)


def test_units_of_the_set(clear: dp.ReleasedStatistics) -> None:
    """A set of a column that is turned around and of other units is that of the column, turned around."""
    plain, turned = (clear.iv(f"y ~ {x} + w | z1 + z2 + w").ar_conf_int() for x in ("x", "I(-2 * x)"))
    assert np.array(turned.intervals[0]) == pytest.approx(-np.array(plain.intervals[0])[::-1] / 2, rel=1e-6)
    assert 0.7 in plain
    assert 0.0 not in plain


@pytest.mark.parametrize(
    ("formula", "fragment"),
    [
        ("y ~ x + w", "regressors and instruments"),
        ("y ~ x | z1 | w", "regressors and instruments"),
        ("y ~ x | ", "regressors and instruments"),
        ("y ~ x | y ~ z1", "regressors and instruments"),
        (3, "regressors and instruments"),
        ("y ~ x + w | z1 + z3", "'z3' were not released"),
        ("y ~ w | w", "no column is endogenous"),
        ("y ~ x + w | z1", "fewer are instruments"),
        ("y ~ 0 + x | z1", "both sides"),
        ("y ~ x | z1 + I(z1 + 2 * x)", "combination of the instruments"),
        ("y ~ x | z1 + I(z1 + 2 * y)", "combination of the instruments"),
        ("y ~ x:w | z1", "not a combination"),
        ("y ~ x | z1 + weights(w)", "no weights"),
    ],
)
def test_models_that_are_none(formula: Any, fragment: str, clear: dp.ReleasedStatistics) -> None:
    with pytest.raises((dp.errors.ArgumentError, dp.errors.FormulaError), match=fragment):
        clear.iv(formula)


@pytest.mark.parametrize("values", ["a", [1.0, 2.0], math.nan, math.inf, None])
def test_bad_values(values: Any, clear: dp.ReleasedStatistics) -> None:
    with pytest.raises(dp.errors.ArgumentError, match="values"):
        clear.iv(FORMULA).ar_test(values)


@pytest.mark.parametrize("alpha", [0, 1, "a", math.nan])
def test_bad_levels(alpha: Any, clear: dp.ReleasedStatistics) -> None:
    with pytest.raises(dp.errors.ArgumentError, match="alpha"):
        clear.iv(FORMULA).ar_conf_int(alpha)
    with pytest.raises(dp.errors.ArgumentError, match="radius"):
        clear.iv(FORMULA, radius=alpha and -1)


def test_rows_left_out_by_an_endogenous_column() -> None:
    """Trimmed on x the coefficient is biased, on an instrument it is not."""
    rows = frame(500)
    for name, refused in (("x", True), ("z1", False)):
        domain = DOMAIN | {name: dp.Range(*DOMAIN[name], outside="drop")}  # type: ignore[arg-type]
        stats = dp.release_statistics(domain, list(DOMAIN), 1.0, data=rows, seed=1)
        if refused:
            with pytest.raises(dp.errors.FormulaError, match="neither an instrument nor a control"):
                stats.iv(FORMULA)
        else:
            assert stats.iv(FORMULA).endogenous == ("x",)


def test_it_costs_nothing_and_reads_no_rows(tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        stats = dp.release_statistics(DOMAIN, list(DOMAIN), 1.0, data=frame(500), ledger=ledger)
        fit = stats.iv(FORMULA)
        assert str(fit)
        assert fit.guarantee == stats.guarantee
        assert len(ledger.entries()) == 1


def test_save_and_load(tmp_path: Path) -> None:
    fit = release(frame(2000), 1.0).iv(FORMULA, radius=2.0)
    fit.save(tmp_path / "fit.json")
    again = dp.IVResults.load(tmp_path / "fit.json")
    assert str(again) == str(fit)
    assert again.formula == fit.formula == FORMULA
    assert again.ar_conf_int() == fit.ar_conf_int()


@pytest.mark.slow
def test_no_rows_and_extreme_budgets() -> None:
    for rows, eps in ((0, 0.01), (1, 1.0), (50, 1e-6), (200, 1e6)):
        fit = release(frame(rows + 1).iloc[:rows], eps).iv(FORMULA)
        assert np.isfinite(fit.params).all()
        assert not np.isnan(fit.bse).any()
        assert 0 <= fit.ar_test().pvalue <= 1
        assert max(map(len, str(fit).splitlines()[2:])) <= 80
        assert fit.summary().as_html()
        assert fit.summary().as_latex()


def test_weak_instruments_are_called_weak() -> None:
    fit = release(frame(2000, strength=0.0), 1.0).iv(FORMULA)
    assert fit.first_stage.loc["x", "F"] < 10
    assert "Instruments are weak for x at this budget" in str(fit)
    assert not fit.ar_conf_int().is_bounded
    assert "weak" not in str(release(frame(4000), 10.0).iv(FORMULA))


@pytest.mark.slow
@pytest.mark.parametrize("strength", [1.0, 0.02])
def test_coverage(strength: float) -> None:
    """20 releases with noise like the sampling error: fewer than 14 of 20 intervals cover with a chance of 3e-5."""
    covered = []
    for seed in range(20):
        fit = release(frame(1500, 100 + seed, strength), 2.0, seed=seed).iv("y ~ x | z1 + z2")
        ends = fit.conf_int().loc["x"]
        covered.append((fit.ar_test(0.7).pvalue >= 0.05, ends[0] <= 0.7 <= ends[1]))
    assert np.sum(covered, axis=0).min() >= 14
