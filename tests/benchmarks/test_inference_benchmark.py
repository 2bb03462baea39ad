"""Fast versions of the benchmarks of inference. Samples and noise are seeded, so that nothing is left to chance.

Marks on coverage lie about four standard errors of so few runs below what the full benchmark finds.
"""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.formula.api as smf

from benchmarks.inference import core as inference_core
from benchmarks.inference import coverage as inference
from benchmarks.inference import rivals as inference_rivals
from benchmarks.inference import shares as inference_shares
from benchmarks.inference.coverage import Cell, Truth
from benchmarks.inference.populations import population, simulated

CELL = Cell("adult 4", 10_000, 3.0)


def test_truth_is_the_populations_own_fit() -> None:
    truth, whole = Truth(CELL), population("adult 4")
    frame = whole.frame.assign(income=whole.frame["income"].eq(">50K").astype(int))
    fit = smf.logit(whole.formula, frame).fit(disp=0)
    assert list(CELL.plan.names) == list(fit.params.index)
    assert truth.values == pytest.approx(fit.params.to_numpy(), rel=1e-4)
    assert truth.plain == pytest.approx(fit.bse.to_numpy() * np.sqrt(len(frame) / CELL.rows), rel=1e-4)


@pytest.mark.slow
def test_intervals_of_a_real_population_cover() -> None:
    line = inference.measure(CELL, 12)
    assert line["bounded"] == 1
    assert line["cov 95"] > 0.8
    assert 0.95 <= line["w/oracle"] <= 1.25
    assert line["size .05"] < 0.2
    assert line["power"] > 0.9


def test_simulated_levels_have_their_probabilities() -> None:
    frame = simulated("binomial", 10).frame
    shares = frame["f1"].value_counts(normalize=True)
    assert shares["l3"] == pytest.approx(0.02, abs=0.002)
    assert shares["l0"] == pytest.approx(0.48, abs=0.01)
    assert simulated("gaussian", 4, narrow=True).frame["x0"].std() == pytest.approx(0.3, abs=0.01)


def test_shares_have_a_line() -> None:
    line = inference_shares.figures("simulated gaussian 4", 1000, 3.0, 0.5, 2)
    assert line["bounded"] == 1
    assert 0.9 < line["width/plain"] < 2


@pytest.mark.slow
def test_rivals_are_wider_or_cover_less() -> None:
    cell = inference_core.Cell("gaussian", 3, 10_000, 0.1)
    lines = {line["scheme"]: line for line in inference_rivals.figures(cell, 15)}
    ours = lines.pop("ours")
    assert ours["cov 95"] > 0.8
    assert lines["naive"]["cov 95"] < 0.7
    assert lines["Wang, Kifer, Lee"]["width"] > 1.2 * ours["width"]
    assert lines["Ferrando et al."]["width"] > 3 * ours["width"]
