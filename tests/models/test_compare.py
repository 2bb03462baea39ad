"""Methods side by side: public facts alone, predictions beside real fits, refusals before anything else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.errors import ArgumentError, FormulaError
from dpstats.mechanisms.calibration import typical_sizes

DOMAIN = {"x": (-1, 1), "z": (0, 5), "g": ["a", "b", "c"], "y": [0, 1], "w": (0, 10)}


@pytest.mark.slow
def test_the_table_is_what_the_plans_say() -> None:
    found = dp.compare("y ~ x + g", DOMAIN, 1.0, n=20_000, family="binomial", inference=None)
    assert list(found.table.index) == ["objective", "output"]
    assert "Markov chain" in found.left_out["posterior"]
    assert found.best == "objective"
    assert "statistics" in found.left_out
    plan = dp.plan("y ~ x + g", DOMAIN, 1.0, family="binomial", method="output", rows_guess=20_000)
    row = found.table.loc["output"]
    assert row["noise"] == pytest.approx(np.sqrt(np.mean(plan.noise_sd**2)))
    bound = plan.excess_risk(n=20_000).set_index("bound")["per_row"]["unregularised, in the mean"]
    assert row["at_most"] == pytest.approx(bound)
    assert row["certified"]
    assert (found.table["excess"] <= found.table["at_most"]).all()
    assert sorted(found.curves["n"].unique())[3] == 20_000


def simulated(n: int, method: str, fits: int = 24) -> float:
    """The realised mean excess of the mean loss, rows drawn evenly from the Domain, typical coefficients at random."""
    random, total = np.random.default_rng(3), 0.0
    plan = dp.plan("y ~ x + g", DOMAIN, 2.0, family="binomial", inference=None)
    sizes, family = typical_sizes(plan.family, plan.design), plan.family
    for _ in range(fits):
        frame = pd.DataFrame({"x": random.uniform(-1, 1, n), "g": random.choice(["a", "b", "c"], n)})
        exog, _ = plan.design.exog(frame)
        eta = exog @ (sizes * random.normal(size=len(sizes)))
        frame["y"] = (random.random(n) < family.mean(eta)).astype(int)
        fit = dp.logit("y ~ x + g", frame, 2.0, domain=DOMAIN, method=method, inference=None, rows_guess=n)
        # Nearly without privacy: the least loss on these rows.
        best = dp.logit("y ~ x + g", frame, 1e5, domain=DOMAIN, inference=None, curvature=1e-3)
        endog = frame["y"].to_numpy(dtype=np.float64)
        losses = [family.derivatives(exog @ one.scaled_params, endog).value.mean() for one in (fit, best)]
        total += losses[0] - losses[1]
    return total / fits


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 8000])
def test_predictions_are_near_real_fits(n: int) -> None:
    """A factor of three either way: a prediction's order, which is what the choice rests on. 24 fits a cell.

    The realised mean has a relative standard error of about a third, so the limits are three of them away.
    """
    table = dp.compare(
        "y ~ x + g", DOMAIN, 2.0, n=n, methods=["objective", "output"], family="binomial", inference=None
    ).table
    real = {method: simulated(n, method) for method in table.index}
    assert real["objective"] < real["output"]
    for method, value in real.items():
        assert value / 3 < table.loc[method, "excess"] < 3 * value


@pytest.mark.slow
def test_released_statistics_are_predicted_for_linear_models() -> None:
    random, n = np.random.default_rng(4), 4000
    found = dp.compare("w ~ x + g", DOMAIN, 0.5, n=n, delta=1e-5)
    assert set(found.table.index) == {"objective", "output", "statistics"}
    assert set(found.left_out) == {"posterior"}
    plan = dp.plan("w ~ x + g", DOMAIN, 0.5, inference=None)
    sizes, excess = typical_sizes(plan.family, plan.design), []
    for _ in range(12):
        frame = pd.DataFrame({"x": random.uniform(-1, 1, n), "g": random.choice(["a", "b", "c"], n)})
        exog, _ = plan.design.exog(frame)
        scaled = exog @ (sizes * random.normal(size=len(sizes)) / 4)
        frame["w"] = 5 + 5 * np.clip(scaled, -1, 1) + random.normal(0, 0.2, n)
        released = dp.release_statistics(DOMAIN, ["w", "x", "g"], 0.5, data=frame, delta=1e-5)
        fit = released.fit("w ~ x + g")
        endog = (np.clip(frame["w"], 0, 10) - 5) / 5
        best = np.linalg.lstsq(exog, endog, rcond=None)[0]
        error = fit.predict(frame).to_numpy() / 5 - 1 - exog @ best
        excess.append(np.mean(error**2) / 2)
    # Smaller coefficients than typical, for the response must stay in its range: less shrinkage than predicted.
    assert np.mean(excess) / 6 < found.table.loc["statistics", "excess"] < 6 * np.mean(excess)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_posterior_samples_of_few_columns_are_compared_and_never_win(delta: float) -> None:
    found = dp.compare("y ~ x", DOMAIN, 1.0, n=20_000, family="binomial", delta=delta)
    assert found.best == "objective"
    assert found.table.loc["posterior", "excess"] > 2 * found.table.loc["objective", "excess"]
    assert found.table.loc["posterior", "law"].startswith("posterior")


@pytest.mark.slow
def test_no_row_is_needed_and_nothing_is_drawn_at_random() -> None:
    one, two = (dp.compare("y ~ x + g", DOMAIN, 1.0, family="binomial") for _ in range(2))
    pd.testing.assert_frame_equal(one.curves, two.curves)


@pytest.mark.slow
def test_summary_and_plot() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = dp.compare("w ~ x + g", DOMAIN, 1.0, n=500)
    text = str(found)
    for said in ("Methods for w ~ x + g, 500 rows", "statistics", "No row was read", "output"):
        assert said in text
    assert max(map(len, text.splitlines())) <= 80
    assert "objective" in repr(found)
    for what in ("excess", "noise", "at_most"):
        ax = found.plot(what=what)
        assert len(ax.get_lines()) == (3 if what == "at_most" else 4)
        matplotlib.pyplot.close(ax.figure)
    with pytest.raises(ArgumentError, match="what"):
        found.plot(what="cost")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n": 0}, "n must"),
        ({"n": 1.5}, "n must"),
        ({"n": True}, "n must"),
        ({"methods": "output"}, "methods"),
        ({"methods": []}, "methods"),
        ({"methods": ["output", "best"]}, "methods"),
        ({"methods": ["statistics"]}, "linear models"),
        ({"methods": ["output"], "inference": True}, "inference"),
        ({"eps": -1.0}, "eps"),
        ({"curvatur": 1.0}, "curvatur"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], name: str) -> None:
    with pytest.raises(ArgumentError, match=name):
        dp.compare("y ~ x + g", DOMAIN, **({"eps": 1.0, "family": "binomial"} | arguments))  # type: ignore[arg-type]


def test_an_unknown_level_set_is_still_an_error() -> None:
    with pytest.raises(FormulaError, match="would be learned from the data"):
        dp.compare("y ~ x + C(other)", DOMAIN, 1.0, family="binomial")
