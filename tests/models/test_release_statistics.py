"""`dpstats.release_statistics`: one charge, any number of linear models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.privacy.gaussian import analytic_mu

DOMAIN = {"y": (0, 10), "a": (0, 5), "b": (-1, 1), "g": ["u", "v", "w"]}
COLUMNS = ["y", "a", "b", "g"]


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"a": rng.uniform(0, 5, rows), "b": rng.uniform(-1, 1, rows)})
    found["g"] = rng.choice(["u", "v", "w"], rows)
    found["y"] = 2 + 0.8 * found["a"] + found["b"] + (found["g"] == "v") + rng.normal(size=rows)
    return found


@pytest.fixture(scope="module")
def clear() -> dp.ReleasedStatistics:
    """Hardly any noise."""
    return dp.release_statistics(DOMAIN, [*COLUMNS, "a:g"], 1e4, data=frame(4000), seed=1)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ a + b + g",
        "y ~ g + a",
        "y ~ a",
        "y ~ 1",
        "y ~ 0 + a + b",
        "y ~ 0 + g",
        "y ~ C(g, Sum) + b",
        "y ~ I(2 * a + b)",
        "y ~ a * g",
        "b ~ a + g",
        "a ~ y + g",
    ],
)
def test_every_model_is_that_of_least_squares(formula: str, clear: dp.ReleasedStatistics) -> None:
    data = frame(4000)
    data["y"] = data["y"].clip(*DOMAIN["y"])
    fit, right = clear.fit(formula), smf.ols(formula, data).fit()
    assert fit.params.to_numpy() == pytest.approx(right.params.to_numpy(), abs=0.02)
    assert fit.debiased.to_numpy() == pytest.approx(right.params.to_numpy(), abs=0.02)
    assert fit.bse.to_numpy() == pytest.approx(right.bse.to_numpy(), rel=0.05)
    new = frame(50, 3)
    assert fit.predict(new).to_numpy() == pytest.approx(right.predict(new).to_numpy(), abs=0.02)


def test_convex_penalties(clear: dp.ReleasedStatistics) -> None:
    strong = clear.fit("y ~ a + b + g", penalty="lasso", alpha=300.0)
    assert (strong.params == 0).sum() >= 1
    weak = clear.fit("y ~ a + b + g", penalty=dp.penalties.ElasticNet(1e-6, 0.5))
    assert weak.params.to_numpy() == pytest.approx(clear.fit("y ~ a + b + g").params.to_numpy(), abs=1e-3)
    with pytest.raises(dp.errors.ArgumentError, match="selection"):
        _ = strong.bse
    assert "No standard errors are shown" in str(strong)
    with pytest.raises(dp.errors.ArgumentError, match="convex"):
        clear.fit("y ~ a", penalty="scad", alpha=1.0)


@pytest.mark.parametrize(
    ("formula", "fragment"),
    [
        ("y ~ z", "'z' were not released"),
        ("y ~ a:b", "is not a combination"),
        ("np.log(y + 1) ~ a", "is not a combination"),
        ("y ~ a + I(2 * a)", "are linearly dependent"),
        ("y ~", "cannot be parsed"),
    ],
)
def test_models_that_do_not_follow(formula: str, fragment: str, clear: dp.ReleasedStatistics) -> None:
    with pytest.raises((dp.errors.ArgumentError, dp.errors.FormulaError), match=fragment):
        clear.fit(formula)


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, "1", 1e-300])
def test_bad_radius(radius: Any, clear: dp.ReleasedStatistics) -> None:
    with pytest.raises(dp.errors.ArgumentError, match="radius"):
        clear.fit("y ~ a", radius=radius)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_one_charge_for_all_models(delta: float, adjacency: str, tmp_path: Path) -> None:
    data = frame(3000)
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0, delta=1e-3, adjacency=adjacency) as ledger:
        stats = dp.release_statistics(DOMAIN, COLUMNS, 0.8, data=data, delta=delta, adjacency=adjacency, ledger=ledger)
        for formula in ("y ~ a", "y ~ a + b + g", "b ~ g"):
            assert stats.fit(formula).guarantee == stats.guarantee
        assert len(ledger.entries()) == 1
        assert stats.guarantee.certified
        assert stats.guarantee.eps == 0.8
        assert stats.budget["eps"].sum() == pytest.approx(0.8)
        assert stats.budget["delta"].sum() == stats.guarantee.delta
        assert stats.nobs == (3000 if adjacency == "replace_one" else None)
        # Another one is refused, and nothing is released or read.
        with pytest.raises(dp.errors.BudgetExceeded):
            dp.release_statistics(DOMAIN, COLUMNS, 0.8, data=data, adjacency=adjacency, ledger=ledger)


def test_rows_are_read_after_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.data.columns import NumericColumn

    plain, seen = NumericColumn.numbers, []
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger:

        def spied(column: NumericColumn) -> Any:
            if len(column) == 50:
                seen.append(ledger.entries()["state"].tolist())
            return plain(column)

        monkeypatch.setattr(NumericColumn, "numbers", spied)
        stats = dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(50), ledger=ledger)
        count = len(seen)
        stats.fit("y ~ a")
        assert len(seen) == count
    assert seen
    assert all(states == ["read"] for states in seen)


def test_a_failure_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.data.columns import NumericColumn

    plain = NumericColumn.numbers

    def broken(column: NumericColumn) -> Any:
        if len(column) == 50:
            raise ValueError(f"bad cell {column.values[0]}")
        return plain(column)

    monkeypatch.setattr(NumericColumn, "numbers", broken)
    with (
        dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger,
        pytest.raises(dp.errors.ReleaseError) as caught,
    ):
        dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(50), ledger=ledger)
    assert "bad cell" not in str(caught.value)
    assert caught.value.__context__ is None


BAD: list[tuple[dict[str, Any], str]] = [
    ({"columns": "y"}, "columns"),
    ({"columns": ["y"]}, "columns"),
    ({"columns": []}, "columns"),
    ({"columns": ["y", "a", "a"]}, "columns"),
    ({"columns": ["y", 3]}, "columns"),
    ({"columns": ["y", "a ~ b"]}, "columns"),
    ({"columns": ["y", "0 + a"]}, "intercept"),
    ({"columns": ["y", "nowhere"]}, "nowhere"),
    ({"columns": ["g", "a"]}, "response"),
    ({"columns": ["y", "a +"]}, "parsed"),
    ({"columns": ["y", "a - a.mean()"]}, "mean"),
    ({"response": 3}, "response"),
    ({"domain": {"y": (0, 10)}}, "a"),
    ({"eps": 0.0}, "eps"),
    ({"eps": float("nan")}, "eps"),
    ({"eps": 1e-300}, "eps"),
    ({"eps": 1e300}, "eps"),
    ({"radius": 1e300}, "radius"),
    ({"radius": True}, "radius"),
    ({"delta": 1.0}, "delta"),
    ({"delta": 1e-300}, "delta"),
    ({"radius": 0.0}, "radius"),
    ({"adjacency": "near"}, "adjacency"),
    ({"seed": -1}, "seed"),
    ({"ledger": "file"}, "ledger"),
    ({"data": 17}, "data"),
    ({"data": pd.DataFrame({"y": [1.0]})}, "a"),
]


@pytest.mark.parametrize(("given", "fragment"), BAD, ids=[str(index) for index in range(len(BAD))])
def test_bad_input(given: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0, delta=0.1) as ledger:
        arguments = {"domain": DOMAIN, "columns": COLUMNS, "eps": 1.0, "data": frame(20), "ledger": ledger, **given}
        with pytest.raises(dp.errors.DPStatsError, match=fragment):
            dp.release_statistics(**arguments)
        assert len(ledger.entries()) == 0


def test_seeded_is_uncertified_and_no_ledger_takes_it(tmp_path: Path) -> None:
    stats = dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(200), seed=1)
    assert "NOT CERTIFIED" in str(stats)
    assert "NOT CERTIFIED" in str(stats.fit("y ~ a"))
    with (
        dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=10.0) as ledger,
        pytest.raises(dp.errors.UncertifiedError),
    ):
        dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(200), seed=1, ledger=ledger)


def test_the_operating_system_draws_the_noise() -> None:
    first, second = (dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(200)).released for _ in range(2))
    assert (first != second).all()


def test_save_and_load(tmp_path: Path) -> None:
    stats = dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(500), delta=1e-3)
    stats.save(tmp_path / "stats.json")
    again = dp.ReleasedStatistics.load(tmp_path / "stats.json")
    assert np.array_equal(again.released, stats.released)
    assert again.guarantee == stats.guarantee
    fit = stats.fit("y ~ a + g", penalty="ridge", alpha=2.0, radius=2.0)
    pd.testing.assert_series_equal(again.fit("y ~ a + g", penalty="ridge", alpha=2.0, radius=2.0).params, fit.params)
    fit.save(tmp_path / "fit.json")
    loaded = dp.StatisticsResults.load(tmp_path / "fit.json")
    pd.testing.assert_series_equal(loaded.params, fit.params)
    assert str(loaded) == str(fit)


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "kind": "other"}', "[1]"])
@pytest.mark.parametrize("kind", [dp.ReleasedStatistics, dp.StatisticsResults])
def test_files_that_are_not_ours(kind: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(dp.errors.DataError, match="not a file written by"):
        kind.load(tmp_path / "file.json")
    with pytest.raises(dp.errors.DataError, match="no file"):
        kind.load(tmp_path / "nowhere.json")


def test_cells_do_not_raise_or_warn() -> None:
    """Any cell at all, and no rows: a release."""
    data = frame(300)
    data.loc[:10, "a"] = np.nan
    data.loc[11:20, "b"] = 1e300
    data.loc[21:30, "g"] = "elsewhere"
    data.loc[31:40, "y"] = -np.inf
    for rows in (data, data.iloc[:0], data.iloc[:1]):
        stats = dp.release_statistics(DOMAIN, COLUMNS, 0.01, data=rows)
        fit = stats.fit("y ~ a + b + g")
        assert np.isfinite(fit.params).all()
        assert not np.isnan(fit.bse).any()
        assert str(fit)
        assert str(stats)


@pytest.mark.slow
@pytest.mark.parametrize("eps", [1e-6, 1e6])
@pytest.mark.parametrize("delta", [0.0, 1e-250, 0.5])
@pytest.mark.parametrize("radius", [1e-6, 1e6])
def test_extreme_budgets(eps: float, delta: float, radius: float) -> None:
    for adjacency in ("add_remove", "replace_one"):
        stats = dp.release_statistics(
            DOMAIN, COLUMNS, eps, data=frame(100), delta=delta, radius=radius, adjacency=adjacency
        )
        for formula in ("y ~ a + b + g", "a ~ y", "y ~ 1"):
            fit = stats.fit(formula)
            assert np.isfinite(fit.params).all()
            assert (fit.bse > 0).all()
            assert not np.isnan(fit.conf_int()).any(axis=None)


def test_a_row_is_bounded_whatever_its_cells(clear: dp.ReleasedStatistics) -> None:
    """Released with hardly any noise, a row of huge cells counts as one at the ends of the ranges."""
    row = pd.DataFrame({"y": [1e12], "a": [1e12], "b": [-1e12], "g": ["v"]})
    ends = pd.DataFrame({"y": [10.0], "a": [5.0], "b": [-1.0], "g": ["v"]})
    huge, plain = (dp.release_statistics(DOMAIN, COLUMNS, 1e6, data=data, seed=2).released for data in (row, ends))
    assert np.array_equal(huge, plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("eps", "delta", "adjacency"), [(1.0, 0.0, "add_remove"), (1.0, 1e-3, "replace_one"), (2.0, 1e-3, "add_remove")]
)
def test_intervals_cover(eps: float, delta: float, adjacency: str) -> None:
    """80 releases, 5 coefficients: below .88 of 400 intervals with probability under 1e-4 even if runs are correlated.

    Coefficients of one release hardly are: the design effect is taken as 2, so the standard deviation is .0154.
    """
    right, found = np.array([2.0, 1.0, 0.0, 0.8, 1.0]), []
    for seed in range(80):
        stats = dp.release_statistics(
            {**DOMAIN, "y": (-5, 15)},
            COLUMNS,
            eps,
            data=frame(2000, seed + 10),
            delta=delta,
            adjacency=adjacency,
            seed=seed,
        )
        ends = stats.fit("y ~ a + b + g").conf_int().to_numpy()
        found.append((ends[:, 0] <= right) & (right <= ends[:, 1]))
    assert np.mean(found) >= 0.88
    assert np.mean(found) <= 0.995


def test_summaries_fit_a_terminal(clear: dp.ReleasedStatistics) -> None:
    for shown in (clear, clear.fit("y ~ a + g"), clear.fit("y ~ a", penalty="lasso", alpha=1.0)):
        assert max(map(len, str(shown).splitlines()[2:])) <= 80  # below the banner of a seeded release
        assert shown.summary().as_html()
        assert shown.summary().as_latex()


def test_t_test(clear: dp.ReleasedStatistics) -> None:
    fit = clear.fit("y ~ a + b")
    tests = fit.t_test([[0, 1, -1]])
    assert tests.effect[0] == pytest.approx(fit.debiased["a"] - fit.debiased["b"])
    assert tests.sd[0] > 0
    assert fit.pvalues["a"] < 1e-6
    assert fit.tvalues["a"] == pytest.approx(fit.debiased["a"] / fit.bse["a"])


def test_what_composition_is_told_is_what_the_noise_costs() -> None:
    """rho is at least half the square of the mu that eps and delta buy, but for the hundredth of eps beside it."""
    for adjacency in ("add_remove", "replace_one"):
        found = dp.release_statistics(DOMAIN, COLUMNS, 1.0, data=frame(10), delta=0.05, adjacency=adjacency)
        rho = found.guarantee.rho
        assert rho is not None
        assert analytic_mu(0.98, 0.05) ** 2 / 2 <= rho <= analytic_mu(1.0, 0.05) ** 2 / 2


def test_arguments_that_do_not_fit_are_told_of_as_by_other_calls() -> None:
    """The Domain stands first here, where other calls have the rows."""
    with pytest.raises(
        dp.errors.ArgumentError, match="multiple values for argument 'domain'; its arguments are domain"
    ):
        dp.release_statistics(frame(9), COLUMNS, 1.0, domain=DOMAIN)  # type: ignore[misc, call-arg]
    with pytest.raises(dp.errors.ArgumentError, match="needs eps"):
        dp.release_statistics(DOMAIN, COLUMNS, data=frame(9))  # type: ignore[call-arg]
