"""Bases that sum to one are refused beside what they sum to, and only there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dp
from dpstats.errors import FormulaError
from dpstats.families import Gaussian
from dpstats.formula.design import design_spec, requested_spec
from dpstats.formula.submodels import uniform_exog

DOMAIN = dp.Domain({"y": (0, 1), "x": (17, 90), "z": (0, 10), "g": ["a", "b", "c"], "h": ["m", "f"]})

CENTRED = "cr(x, df=4, constraints='center')"

REFUSED = {
    "cr(x, df=4) + h": f"cr(x, df=4) adds up to the intercept; write {CENTRED}",
    "I(cr(x, df=4))": f"I(cr(x, df=4)) adds up to the intercept; write {CENTRED}",
    "cc(x, df=4)": "cc(x, df=4) adds up to the intercept; write cc(x, df=4, constraints='center')",
    "cr(np.log(x), df=3)": "write cr(np.log(x), df=3, constraints='center')",
    "te(cr(x, df=3), cc(z, df=3))": "write te(cr(x, df=3), cc(z, df=3), constraints='center')",
    "bs(x, df=5, include_intercept=True)": "adds up to the intercept; write bs(x, df=5) (",
    "cr(x, df=4):g": f"cr(x, df=4):g adds up to g; write g + {CENTRED}:g",
    "g + cr(x, df=4):g": f"cr(x, df=4):g adds up to g; write {CENTRED}:g",
    "g * cr(x, df=4)": f"cr(x, df=4) adds up to the intercept; write {CENTRED}",
    "z + z:cr(x, df=4)": f"z:cr(x, df=4) adds up to z; write z:{CENTRED}",
    "0 + g + cr(x, df=4)": f"cr(x, df=4) adds up to one, as g does; write {CENTRED}",
    "0 + cr(x, df=4) + cr(z, df=3)": f"cr(x, df=4) adds up to one, as cr(z, df=3) does; write {CENTRED}",
}

ALLOWED = [
    *(f"{CENTRED} + h", f"g * {CENTRED}", f"z + z:{CENTRED}", f"0 + g + {CENTRED}", f"g + {CENTRED}:g"),
    *("cc(x, df=4, constraints='center')", "te(cr(x, df=3), cc(z, df=3), constraints='center')", "bs(x, df=5)"),
    *("0 + cr(x, df=4)", "cr(x, df=4) + bs(z, df=4) - 1", "0 + cr(x, df=4):g", "0 + cr(x, df=4) + cr(x, df=4):g"),
    *("z:cr(x, df=4)", "te(cr(x, df=3), bs(z, df=4))", f"0 + cr(z, df=3) + {CENTRED}", "rff(x, z, gamma=1.0, D=10)"),
]


def rank(formula: str) -> tuple[int, int]:
    """Rank and number of columns of a design on rows that are spread evenly; a few are shortened by a millionth."""
    exog = uniform_exog(design_spec(f"y ~ {formula}", DOMAIN, family=Gaussian()))
    return int(np.linalg.matrix_rank(exog / np.linalg.norm(exog, axis=0), tol=1e-5)), exog.shape[1]


@pytest.mark.parametrize("formula", REFUSED)
def test_what_sums_to_other_terms_is_refused(formula: str) -> None:
    found, columns = rank(formula)
    assert found < columns
    with pytest.raises(FormulaError) as caught:
        requested_spec(f"y ~ {formula}", DOMAIN, family=Gaussian())
    assert REFUSED[formula] in str(caught.value)


@pytest.mark.parametrize("formula", ALLOWED)
def test_what_does_not_is_of_full_rank(formula: str) -> None:
    found, columns = rank(formula)
    assert found == columns
    assert len(requested_spec(f"y ~ {formula}", DOMAIN, family=Gaussian()).names) == columns


@pytest.mark.parametrize("formula", [formula for formula in REFUSED if not formula.startswith("g *")])
def test_what_a_refusal_says_to_write_is_of_full_rank(formula: str) -> None:
    with pytest.raises(FormulaError) as caught:
        requested_spec(f"y ~ {formula}", DOMAIN, family=Gaussian())
    before, _, after = str(caught.value).partition("; write ")
    term, instead = before.partition(" adds up to ")[0], after.partition(" (character")[0]
    mended = formula.replace(term, instead)
    assert mended != formula
    found, columns = rank(mended)
    assert found == columns
    requested_spec(f"y ~ {mended}", DOMAIN, family=Gaussian())


def data(count: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.uniform(17, 90, count), "z": rng.uniform(0, 10, count)})
    frame["g"], frame["h"] = rng.choice(["a", "b", "c"], count), rng.choice(["m", "f"], count)
    frame["y"] = np.clip(0.5 + 0.2 * np.sin(frame.x / 12) + 0.1 * (frame.h == "f") + rng.normal(0, 0.1, count), 0, 1)
    return frame


def test_calls_refuse_before_anything_is_charged(tmp_path: Path) -> None:
    frame, ledger = data(50), dp.Ledger(tmp_path / "ledger.db", "rows", eps=10)
    calls = (
        lambda: dp.ols("y ~ cr(x, df=4)", frame, 1.0, domain=DOMAIN, ledger=ledger),
        lambda: dp.ols("y ~ cr(x, df=4) | g", frame, 1.0, domain=DOMAIN, ledger=ledger),
        lambda: dp.check("y ~ cr(x, df=4)", frame, DOMAIN, 1.0, ledger=ledger),
        lambda: dp.local.Spec(DOMAIN, "y ~ cr(x, df=4)", eps=1.0, delta=1e-5, n=5000),
    )
    for call in calls:
        with pytest.raises(FormulaError, match=r"write cr\(x, df=4, constraints='center'\)"):
            call()
    assert ledger.remaining == ledger.total


def test_an_absorbed_factor_has_a_constant() -> None:
    for formula in ("y ~ cr(x, df=4) | g", "y ~ 0 + cr(x, df=4) | g"):
        with pytest.raises(FormulaError, match="adds up to one, as the levels of g do; write cr"):
            dp.plan(formula, DOMAIN, 1.0)
    assert len(dp.plan(f"y ~ {CENTRED} | g", DOMAIN, 1.0).names) == 4


def test_a_stored_design_of_such_a_formula_is_built_as_it_was() -> None:
    old = design_spec("y ~ cr(x, df=4) + h", DOMAIN, family=Gaussian())
    assert type(old).from_dict(old.to_dict()).to_dict() == old.to_dict()


@pytest.mark.slow
def test_a_centred_spline_predicts_what_statsmodels_does() -> None:
    frame = data()
    fit = dp.ols(f"y ~ {CENTRED} + h", frame, 1e6, domain=DOMAIN, seed=1)
    predicted = fit.get_prediction(frame.head(50)).summary_frame()
    assert np.isfinite(fit.bse).all()
    assert np.isfinite(predicted.to_numpy(dtype=float)).all()
    # The same knots, at quarters of the declared range; patsy centres over the data, and curves are the same.
    knots = "knots=[35.25, 53.5, 71.75], lower_bound=17, upper_bound=90"
    exact = smf.ols(f"y ~ cr(x, {knots}, constraints='center') + h", frame).fit()
    np.testing.assert_allclose(fit.predict(frame.head(50)), exact.predict(frame.head(50)), atol=2e-3)
