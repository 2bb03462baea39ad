"""Fits to rows on a cluster of two processes: the same release, the charge first, and nothing left there."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.data import as_table

dd = pytest.importorskip("dask.dataframe")

CELL = "cell-7316549"
DOMAIN: dict[str, Any] = {"c": (0, 1), "a": (-4, 4), "b": (-4, 4), "g": ["u", "v", "w"], "y": (-6, 6), "n": (0, 20)}


def frame(rows: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"])
    data["g"] = rng.choice(["u", "v", "w", None], rows)
    data["y"] = data.a - data.b + rng.normal(size=rows)
    data["c"] = (data.y > 0).astype(float)
    data["n"] = rng.poisson(2, rows)
    data["w"] = rng.uniform(0, 2, rows)
    data["person"] = rng.integers(0, rows // 2, rows)
    return data


def parts(data: pd.DataFrame | None = None) -> Any:
    return dd.from_pandas(frame() if data is None else data, npartitions=5)


def tasks(client: Any) -> list[str]:
    return client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])


@pytest.fixture(autouse=True)
def nothing_stays(client: Any) -> Iterator[None]:
    yield
    gc.collect()
    deadline = time.monotonic() + 20
    while tasks(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert tasks(client) == []


def seeded(formula: str, family: str = "gaussian", **options: Any) -> Callable[[Any], Any]:
    def call(data: Any) -> Any:
        arguments = {"domain": DOMAIN, "seed": 3, "family": family, "on_mismatch": "go", **options}
        fit = dp.glm(formula, data, 2.0, **arguments)
        return [fit.params, fit.debiased] if hasattr(fit, "debiased") else fit.params

    return call


def evaluated(data: Any) -> Any:
    fit = dp.logit("c ~ a + g", frame(), 1.0, domain=DOMAIN, seed=2, on_mismatch="go")
    return dp.evaluate(fit, data, 1.0, seed=1).metrics


def checked(data: Any) -> Any:
    return dp.check("y ~ a + g", data, DOMAIN, 1.0, seed=1).table


def statistics(data: Any) -> Any:
    return dp.release_statistics(DOMAIN, ["y", "a", "g"], 1.0, data=data, seed=1).fit("y ~ a").params


def held_out(data: Any) -> Any:
    return seeded("y ~ a")(dp.holdout(data, 0.3, by=["a", "g"], seed=1).train)


def ranged(data: Any) -> Any:
    bought = dp.buy_ranges(data, ["a", "b"], 1.0, seed=1).domain
    fits = dp.plan_many({"one": "y ~ a", "two": "n ~ b"}, {"y": (-6, 6), "n": (0, 20)}, 2.0).fit(data, seed=1)
    return [bought.to_dict(), *(fit.params for fit in fits.values())]


RELEASES: dict[str, Callable[[Any], Any]] = {
    "gaussian": seeded("y ~ a + b + g"),
    "binomial": seeded("c ~ a + b + g", "binomial", inference=True),
    "poisson": seeded("n ~ a", "poisson", adjacency="replace_one"),
    "svm": seeded("c ~ a + b", "huber_svm", delta=1e-6),
    "lasso": seeded("y ~ a + b + g", penalty="lasso", alpha=5.0, stages=2, selection="noise_aware"),
    "screened": seeded("y ~ a + b + g", screen=1),
    "robust": seeded("y ~ a", inference="robust", response="bought"),
    "output": seeded("c ~ a", "binomial", method="output"),
    "ranges bought": seeded("y ~ a + b", domain={"y": (-6, 6)}),
    "evaluation": evaluated,
    "check": checked,
    "statistics": statistics,
    "holdout": held_out,
    "persons": seeded("y ~ a + b + g", unit="person"),
    "persons' errors": seeded("c ~ a + b", "binomial", unit="person", inference=True),
    "persons' weights": seeded("y ~ a", unit="person", weights="w", domain={**DOMAIN, "w": (0, 2)}),
    "ranges": ranged,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_the_same_release_as_on_one_machine(client: Any, name: str) -> None:
    """To the certificate: sums are added in another order, and what is released lies on a lattice."""
    here, there = RELEASES[name](frame()), RELEASES[name](parts())
    for one, other in zip(*([x] if not isinstance(x, list) else x for x in (here, there)), strict=True):
        if isinstance(one, dict):
            assert one == other
        else:
            numbers = [np.asarray(x.select_dtypes("number") if x.ndim == 2 else x, dtype=float) for x in (one, other)]
            np.testing.assert_allclose(numbers[1], numbers[0], rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        lambda data: dp.glm("y ~ a", data, 1e4, domain=DOMAIN, unit="person", max_rows=1, seed=1).params,
        lambda data: (
            dp.ols("y ~ a + b", data, 1e4, domain=DOMAIN, unit="person", split="rows", screen=1, seed=1).params
        ),
        lambda data: dp.evaluate(
            dp.logit("c ~ a + g", frame(), 1.0, domain=DOMAIN, seed=2, on_mismatch="go"),
            data,
            1e3,
            unit="person",
            seed=1,
        ).metrics.loc[["accuracy", "brier"], "estimate"],
        lambda data: dp.check("y ~ a + g", data, DOMAIN, 1e3, unit="person", seed=1).rows,
        lambda data: dp.buy_ranges(data, ["a", "b"], 1e3, unit="person", seed=1).domain.to_dict()["a"]["range"],
    ],
)
def test_draws_of_persons_rows_are_draws_of_the_same_persons(client: Any, call: Callable[[Any], Any]) -> None:
    """Draws depend on blocks, so releases differ by sampling, of 3,000 persons; seeded, so that no run is another's."""
    here, there = (np.ravel(np.asarray(call(data), dtype=float)) for data in (frame(), parts()))
    np.testing.assert_allclose(there, here, rtol=0.05, atol=0.1)


def _told(folder: str, part: pd.DataFrame) -> pd.DataFrame:
    Path(folder, str(os.getpid())).touch()
    return part


@pytest.mark.slow
def test_the_charge_comes_before_the_first_task(client: Any, tmp_path: Path) -> None:
    folder = tmp_path / "worked"
    folder.mkdir()
    data = parts().map_partitions(lambda part: _told(str(folder), part), meta=frame(0))
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        for call in (
            lambda: dp.glm("y ~ a", data, 2.0, domain=DOMAIN, ledger=ledger),
            lambda: dp.check("y ~ a", data, DOMAIN, 2.0, ledger=ledger),
            lambda: dp.buy_ranges(data, ["a"], 2.0, ledger=ledger),
            lambda: dp.glm("y ~ a", data, 0.5, domain={"a": (1, 0)}, ledger=ledger),
            lambda: dp.glm("y ~ a", data, 0.5, domain=DOMAIN, realization="augmented", allow_uncertified=True),
            lambda: dp.glm("y ~ a", data, 0.5, domain=DOMAIN, moor="paper", allow_uncertified=True),
            lambda: dp.glm("y ~ a", data, 0.5, domain=DOMAIN, unit="a person"),
        ):
            with pytest.raises(dp.errors.DPStatsError) as raised:
                call()
            assert not isinstance(raised.value, dp.errors.ReleaseError)
        assert not list(folder.iterdir())
        assert len(ledger.entries()) == 0
        dp.glm("y ~ a", data, 0.5, domain=DOMAIN, ledger=ledger)
        assert list(folder.iterdir())
        assert ledger.remaining.eps == pytest.approx(0.5)


def _fails(part: pd.DataFrame) -> pd.DataFrame:
    raise ValueError(f"{CELL} of {part.a.iloc[0]!r}")


def _shouts(part: pd.DataFrame) -> pd.DataFrame:
    np.log(-np.abs(part.a.to_numpy()))
    return part.assign(a=part.a / 0)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [_fails, lambda part: part[["b"]], lambda part: CELL])
def test_what_fails_on_a_worker_is_one_constant_error(client: Any, tmp_path: Path, broken: Any) -> None:
    data = parts().map_partitions(broken, meta=frame(0), enforce_metadata=False)
    with dp.Ledger(tmp_path / "ledger.db", dataset="d", eps=1.0) as ledger:
        with pytest.raises(dp.errors.ReleaseError, match="after rows were read") as raised:
            dp.glm("y ~ a", data, 0.5, domain=DOMAIN, ledger=ledger)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        assert ledger.remaining.eps == pytest.approx(0.985), "the rows could not even be counted"
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert CELL not in logs
    assert "Compute Failed" not in logs


@pytest.mark.slow
def test_a_part_of_a_ledger_pays_for_its_rows(client: Any, tmp_path: Path) -> None:
    counts = []
    for name, data in (("here", frame()), ("there", parts())):
        with dp.Ledger(tmp_path / f"{name}.db", dataset="d", eps=4.0) as ledger:
            part = ledger.partition("g", ["u", "v"])["v"]
            sides = dp.holdout(data, 0.4, by="a", seed=5, ledger=part)
            table = as_table(data)
            counts.append([part.rows_of(table).rows, sides.train.rows, sides.test.rows])
            dp.glm("y ~ a", data, 2.0, domain=DOMAIN, ledger=part)
            dp.glm("y ~ a", sides.test, 2.0, domain=DOMAIN, ledger=sides.test_ledger)
            assert part.remaining.eps == 0
            assert ledger.remaining.eps == 0
    assert counts[0] == counts[1]
    assert counts[0][0] == sum(counts[0][1:]) > 1000


def kill_one(client: Any) -> None:
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


@pytest.mark.slow
def test_killed_workers_change_nothing(client: Any, tmp_path: Path) -> None:
    """Three kills, at moments of their own; benchmarks/audits/kills.py makes many more."""
    data = parts(frame(60_000))
    expected = RELEASES["binomial"](frame(60_000))
    for delay in (0.0, 0.4, 1.0):
        timer = threading.Timer(delay, kill_one, [client])
        timer.start()
        with dp.Ledger(tmp_path / f"{delay}.db", dataset="d", eps=2.0) as ledger:
            found = RELEASES["binomial"](data)
            # A seeded release is not certified, so no ledger takes it; a certified one is charged once.
            dp.glm("y ~ a", data, 2.0, domain=DOMAIN, ledger=ledger)
            assert ledger.remaining.eps == 0
        timer.join()
        # A nanny whose worker is killed while it starts gives up.
        time.sleep(0.5)
        client.wait_for_workers(2, timeout=60)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-7, atol=1e-7)
