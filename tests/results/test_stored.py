"""Every kind of result is what it was once it has been saved and loaded, and has its summary in every form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpstats as dp

RANDOM = np.random.default_rng(0)
ROWS = {
    "x": RANDOM.uniform(0, 1, 3_000),
    "y": RANDOM.uniform(0, 1, 3_000),
    "z": RANDOM.uniform(0, 1, 3_000),
    "binary": RANDOM.integers(0, 2, 3_000),
    "place": RANDOM.integers(0, 3, 3_000),
    "firm": np.repeat(np.arange(600), 5),
    "time": RANDOM.exponential(5, 3_000),
}
DOMAIN = {"x": (0, 1), "y": (0, 1), "z": (0, 1), "binary": (0, 1), "place": [0, 1, 2], "time": (0, 10)}
GIVEN: dict[str, Any] = {"domain": DOMAIN, "seed": 1}


def sums() -> dp.ReleasedStatistics:
    return dp.release_statistics(DOMAIN, ["x", "y", "z"], 3.0, data=ROWS, delta=1e-6, seed=1)


RELEASES: dict[str, Callable[[], Any]] = {
    "AbsorbedResults": lambda: dp.ols("y ~ x | firm", ROWS, 1.0, **GIVEN),
    "Check": lambda: dp.check("y ~ x", ROWS, DOMAIN, 0.5, seed=1),
    "Evaluation": lambda: dp.evaluate(dp.ols("y ~ x", ROWS, 1.0, **GIVEN), ROWS, 0.5, seed=1),
    "GLMResults": lambda: dp.logit("binary ~ x", ROWS, 3.0, fitstats=0.1, **GIVEN),
    "GroupResults": lambda: dp.glm("y ~ x", ROWS, 3.0, by="place", shrink=True, **GIVEN),
    "HazardResults": lambda: dp.hazard("Surv(time, binary) ~ x", ROWS, 3.0, **GIVEN),
    "IVResults": lambda: sums().iv("y ~ x | z"),
    "KaplanMeier": lambda: dp.kaplan_meier("Surv(time, binary) ~ 1", ROWS, 1.0, **GIVEN),
    "MultinomialResults": lambda: dp.glm("place ~ x", ROWS, 3.0, family="multinomial", inference=True, **GIVEN),
    "OrdinalResults": lambda: dp.ordinal("place ~ x", ROWS, 3.0, **GIVEN),
    "QuantileResults": lambda: dp.quantreg("y ~ x", ROWS, 3.0, q=[0.2, 0.8], **GIVEN),
    "ReleasedStatistics": sums,
    "StatisticsResults": lambda: sums().fit("y ~ x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_what_is_loaded_is_what_was_saved(name: str, tmp_path: Path) -> None:
    released, kind = RELEASES[name](), getattr(dp, name)
    assert type(released) is kind
    released.save(tmp_path / "kept.json")
    for again in (
        kind.load(tmp_path / "kept.json"),
        dp.load(tmp_path / "kept.json"),
        kind.from_dict(released.to_dict()),
    ):
        assert again.to_dict() == released.to_dict()
        assert type(again) is kind
        assert repr(again) == repr(released)
        assert again.guarantee == released.guarantee
        assert again.summary().as_text() == released.summary().as_text() == str(released)
    assert "tabular" in released.to_latex()
    assert "\\begin{table}" not in released.to_latex()
    labelled = released.to_latex(label="tab:fit")
    assert "\\caption{" in labelled
    assert labelled.index("\\label{tab:fit}") < labelled.index("tabular")
    assert "<td" in released.to_html() == released._repr_html_()
    assert "---:|" in released.to_markdown()
    with pytest.raises(dp.errors.DataError, match="is not a file written by"):
        (dp.Check if kind is not dp.Check else dp.Evaluation).load(tmp_path / "kept.json")


def test_any_result_is_loaded_by_its_kind(tmp_path: Path) -> None:
    stream = dp.streaming.Regression("y ~ x", {"x": (0, 1), "y": (0, 1)}, 1, 1e-6, horizon=3)
    spec = dp.local.Spec({"x": (0, 1), "y": (0, 1)}, "y ~ x", eps=2.0, delta=1e-6, n=3)
    reports = [dp.local.randomize({"x": x, "y": x}, spec) for x in (0.1, 0.4, 0.6)]
    for made in (stream.update({"x": [0.2], "y": [0.1]}), dp.local.fit(reports, spec)):
        made.save(tmp_path / "kept.json")
        again = dp.load(tmp_path / "kept.json")
        assert type(again) is type(made)
        assert again.params.equals(made.params)
    for text in ("{}", "[]", "no json", '{"format": 1, "kind": "Table"}', '{"kind": ["GLMResults"]}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(dp.errors.DataError, match="is not a file that a result's save"):
            dp.load(tmp_path / "other.json")
    with pytest.raises(dp.errors.DataError, match="there is no file"):
        dp.load(tmp_path / "missing.json")
