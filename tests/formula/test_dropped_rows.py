"""Ranges that drop rows: what is left out of a fit, what predictions do beyond, and that every release covers it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dpstats as dp
from dpstats.data import as_table
from dpstats.errors import ArgumentError, DomainError, DPStatsError
from dpstats.evaluation.integer_noise import choose_noise
from dpstats.families import Binomial, Gaussian, get_family
from dpstats.formula.design import DesignSpec, design_spec
from dpstats.local.encoding import Program
from dpstats.mechanisms.output import output_sensitivity
from dpstats.privacy.calibration import joint_loss, joint_scale
from dpstats.privacy.guarantee import Adjacency
from dpstats.privacy.information.joint import joint_information_loss
from dpstats.privacy.information.matrix import matrix_scale
from dpstats.privacy.information.statistics import frobenius_sensitivity, trace_sensitivity
from dpstats.privacy.ranges import noise_scale
from dpstats.privacy.trimming import trimming_scale

CELLS = [-3.0, 0.0, 0.5, 1.0, 1.0 + 1e-12, 40.0, np.nan, np.inf]
FRAME = pd.DataFrame(
    {
        "x": CELLS,
        "z": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
        "w": [1.0, 2.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0],
        "y": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8],
    }
)
DROPPING = dp.Domain(x=dp.Range(0, 1, outside="drop"), z=(0, 10), w=(0, 5), y=(0, 1))
INSIDE = FRAME[(FRAME["x"] >= 0) & (FRAME["x"] <= 1)]


def design_of(formula: str, domain: dp.Domain) -> DesignSpec:
    return design_spec(formula, domain, family=Gaussian())


def rows_of(formula: str, frame: pd.DataFrame, domain: dp.Domain = DROPPING) -> NDArray[np.float64]:
    (block,) = design_of(formula, domain).blocks(frame)
    parts = [block.exog, block.endog[:, None]]
    parts += [extra[:, None] for extra in (block.weights, block.offset) if extra is not None]
    return np.column_stack(parts)


@pytest.mark.parametrize(
    "formula",
    ["y ~ x", "y ~ z + bs(x, df=4)", "y ~ z + offset(x)", "y ~ z + weights(x)", "y ~ z + subset(x < 5)", "y ~ z:x"],
)
def test_rows_beyond_the_range_are_left_out(formula: str) -> None:
    """Wherever the column is read, and to the last bit as if they had not been there."""
    assert np.array_equal(rows_of(formula, FRAME), rows_of(formula, INSIDE))


def test_the_ends_belong_to_the_range() -> None:
    assert len(rows_of("y ~ x", FRAME)) == 3


def test_other_columns_clip_as_before() -> None:
    domain = dp.Domain(x=(0, 1), z=dp.Range(2, 10, outside="clip"), y=(0, 1))
    assert len(rows_of("y ~ x + z", FRAME, domain)) == 6
    assert np.array_equal(rows_of("y ~ x + z", FRAME, domain), rows_of("y ~ x + z", FRAME, domain.with_(z=(2, 10))))


def test_bounds_are_those_of_the_range() -> None:
    """A range that drops has the noise of one that clips."""
    clipping = DROPPING.with_(x=(0, 1))
    one, other = (dp.plan("y ~ x + z", domain, 1.0) for domain in (DROPPING, clipping))
    assert one.noise.to_dict() == other.noise.to_dict()
    assert np.array_equal(one.noise_sd, other.noise_sd)


def test_predictions_beyond_follow_the_formula() -> None:
    """Columns of a model that drops rows are not clipped where it predicts; those that clip are."""
    design = design_of("y ~ x + np.log(z)", DROPPING.with_(z=(1, 4)))
    exog, complete = design.exog(FRAME)
    assert complete.tolist() == [True] * 6 + [False] * 2
    x = exog[:6, 1] * design.scale[1] + design.center[1]
    assert x == pytest.approx(CELLS[:6])
    assert exog[4:6, 2] == pytest.approx(exog[3, 2])


def test_a_fit_is_that_of_the_rows_inside() -> None:
    random = np.random.default_rng(3)
    rows = pd.DataFrame({"x": random.normal(0.5, 0.6, 2000), "y": random.uniform(size=2000)})
    inside = rows[(rows["x"] >= 0) & (rows["x"] <= 1)]
    for adjacency in ("add_remove", "replace_one"):
        fits = [
            dp.ols("y ~ x", one, 1.0, domain=DROPPING, seed=1, adjacency=adjacency, inference=True, check_share=0)
            for one in (rows, inside)
        ]
        assert fits[0].params.equals(fits[1].params)
        assert fits[0].bse.equals(fits[1].bse)
    assert "Rows with x outside (0, 1) are left out" in " ".join(fits[0].summary().as_text().split())
    far = pd.DataFrame({"x": [0.0, 1.0, 3.0]})
    with pytest.warns(UserWarning, match="1 of 3 rows have 'x' outside of .*: their predictions are extrapolations"):
        predicted = fits[0].predict(far).to_numpy()
    assert predicted[2] - predicted[0] == pytest.approx(3 * (predicted[1] - predicted[0]))
    loaded = dp.GLMResults.from_dict(fits[0].to_dict())
    with pytest.warns(UserWarning, match="extrapolations"):
        assert loaded.predict(far).to_numpy() == pytest.approx(predicted)


RESPONSES: list[Callable[[dp.Domain], Any]] = [
    lambda domain: dp.ols("x ~ z", FRAME, 1.0, domain=domain),
    lambda domain: dp.ols("I(x - z) ~ w", FRAME, 1.0, domain=domain),
    lambda domain: dp.ols("x ~ x", FRAME, 1.0, domain=domain),
    lambda domain: dp.logit("x ~ z", FRAME, 1.0, domain=domain),
    lambda domain: dp.plan("x + z ~ w", domain, 1.0, family="binomial"),
    lambda domain: dp.check("x ~ z", FRAME, domain, 1.0),
    lambda domain: dp.release_statistics(domain, ["x", "z"], 1.0, data=FRAME),
    lambda domain: dp.local.Spec(domain, "x ~ z", eps=1.0, delta=1e-5, n=1000),
    lambda domain: dp.streaming.Regression("x ~ z", domain, eps=1.0, delta=1e-5, horizon=8),
]


@pytest.mark.parametrize("call", RESPONSES)
def test_a_response_may_not_drop_rows(call: Callable[[dp.Domain], Any]) -> None:
    with pytest.raises(DomainError, match=r"'x' drops rows .* part of the response.*domain.with_\(\{'x': \(0, 1\)\}\)"):
        call(DROPPING)


@pytest.mark.parametrize("outside", ["Drop", None, True, ["drop"]])
def test_outside_is_clip_or_drop(outside: Any) -> None:
    with pytest.raises(ArgumentError, match="outside must be one of"):
        dp.Range(0, 1, outside=outside)


@pytest.mark.parametrize(("low", "high"), [(1, 0), (0, np.inf), ("a", 1), (..., ...)])
def test_a_domain_checks_the_ends_of_a_range(low: Any, high: Any) -> None:
    with pytest.raises(DomainError, match="the range of 'x'"):
        dp.Domain(x=dp.Range(low, high, outside="drop"))


def test_a_domain_keeps_what_a_range_says() -> None:
    domain = DROPPING.with_(s=["a", "b"])
    for read in (
        dp.Domain.from_json(domain.to_json()),
        dp.Domain.from_dict(domain.to_dict()),
        dp.Domain.from_yaml(domain.to_yaml()),
        dp.Domain.from_csv(domain.to_csv()),
        domain | {},
        eval(repr(domain), {"Domain": dp.Domain, "Range": dp.Range}),
    ):
        assert read == domain
        assert read.matches(domain)
        assert read["x"].drops
    assert not domain.matches(domain.with_(x=(0, 1)))


def test_a_plain_pair_is_stored_and_printed_as_before() -> None:
    for given in ((0, 1), dp.Range(0, 1), dp.Range(0, 1, outside="clip")):
        domain = dp.Domain(x=given)
        assert repr(domain) == "Domain({'x': (0, 1)})"
        assert domain.to_json() == '{"x": {"range": [0, 1]}}'
        assert domain.to_csv() == "name,low,high,levels\nx,0,1,\n"
        assert domain == dp.Domain(x=(0, 1))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name,low,high,outside\nx,0,1,keep", "outside must be one of"),
        ("name,low,high,levels,outside\nx,,,a|b,drop", "two numbers"),
    ],
)
def test_a_codebook_of_another_word_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DomainError, match=complaint):
        dp.Domain.from_csv(text)


def test_a_codebook_in_yaml_of_another_word_is_refused() -> None:
    for text in ("x: {range: [0, 1], outside: keep}\n", "x: {range: [0, 1], outsid: drop}\n"):
        with pytest.raises(DomainError, match="outside"):
            dp.Domain.from_yaml(text)
    with pytest.raises(DomainError, match="the stored domain of 'x'"):
        dp.Domain.from_dict({"x": {"range": [0, 1], "outside": "keep"}})


def test_a_ledger_asks_for_the_ends_alone(tmp_path: Any) -> None:
    """What a fit does with rows beyond a range is no fact about the data."""
    ledger = dp.Ledger(tmp_path / "x.ledger", dataset="x", eps=3.0, domain=DROPPING)
    assert ledger.domain == DROPPING
    for domain in (DROPPING, DROPPING.with_(x=(0, 1))):
        dp.ols("y ~ x", FRAME, 1.0, domain=domain, ledger=ledger)
    with pytest.raises(DPStatsError, match="'x'"):
        dp.ols("y ~ x", FRAME, 1.0, domain=DROPPING.with_(x=dp.Range(0, 2, outside="drop")), ledger=ledger)


def test_a_check_counts_such_rows_as_lost() -> None:
    rows = pd.DataFrame({"x": np.repeat([0.5, 7.0], 500), "z": np.full(1000, 3.0), "y": np.full(1000, 0.5)})
    found = dp.check("y ~ x + z", rows, DROPPING, 5.0, family="gaussian", seed=1)
    table = found.table.set_index(["column", "fault"])
    assert table.loc[("x", "lost"), "rows"] == pytest.approx(500, abs=10)
    assert "outside (0, 1), beyond which rows are left out" in table.loc[("x", "lost"), "advice"]
    assert ("x", "above") not in table.index
    assert dp.Check.from_dict(found.to_dict()).findings == found.findings


def test_cut_offs_of_typical_values_are_compared_with_their_source() -> None:
    """They are no range that somebody has declared."""
    rows = pd.DataFrame({"x": np.repeat([0.5, 7.0], 500), "y": np.full(1000, 0.5)})
    for typical, told in (((0.5, 0.1), "(0.2, 0.8), 3 sd from the typical mean"), ((5.0, 4.0), "outside (0, 10)")):
        declared = {"x": dp.Range(0, 10, "drop", typical=typical), "y": (0, 1)}
        if typical[1] > 1:
            rows = rows.assign(x=rows["x"] + 10)
        (finding,) = dp.check("y ~ x", rows, declared, 5.0, family="gaussian", seed=1).findings
        assert told in finding
        assert ("compare typical=(mean, sd) with its source" in finding) == (typical[1] < 1)
        assert ("Check this range" in finding) == (typical[1] > 1)
        with pytest.raises(DPStatsError, match=re.escape(told)):
            dp.ols("y ~ x", rows, 5.0, domain=declared, seed=1)


def test_a_note_on_many_intervals_is_short() -> None:
    """The interval of all, if they have one; else the first three."""
    names = [f"x{j}" for j in range(12)]
    alike, formula = dict.fromkeys(names, dp.Range(0, 100, typical=(50, 10))), f"y ~ {' + '.join(names)}"
    (note,) = design_of(formula, dp.Domain(alike | {"y": (0, 1)})).notes
    assert note.startswith("Rows with one of 12 columns outside (20, 80) are left out")
    several = alike | {"x0": dp.Range(0, 100, typical=(40, 10)), "y": (0, 1)}
    (note,) = design_of(formula, dp.Domain(several)).notes
    outside = "x0 outside (10, 70) or x1 outside (20, 80) or x2 outside (20, 80) or one of 9 more columns outside its"
    assert note.startswith(f"Rows with {outside} interval are left out")
    four = {name: dp.Range(0, 100, inner=(10, 20 + at)) for at, name in enumerate(names[:4])}  # no "one of 1 more"
    (note,) = design_of("y ~ x0 + x1 + x2 + x3", dp.Domain({**four, "y": (0, 1)})).notes
    assert "x2 outside (10, 22) or x3 outside (10, 23) are left out" in note


def test_the_note_says_where_splines_stop() -> None:
    """Beyond the declared range, not beyond an interval within it, and only where a basis reads such a column."""
    drops, inner = dp.Range(18, 90, outside="drop"), dp.Range(18, 90, inner=(30, 60))
    for term, declared, end in (
        ("x", drops, "the formula"),
        ("bs(x, df=4)", drops, "the formula, whose splines and polynomials are constant there"),
        ("poly(x, 2)", inner, "the formula, whose splines and polynomials are constant beyond the declared range"),
        ("x + poly(z, 2)", drops, "the formula"),
    ):
        (note,) = design_of(f"y ~ {term}", dp.Domain({"x": declared, "y": (0, 1), "z": (-1, 1)})).notes
        assert note.endswith(f"predictions of such rows follow {end}"), term


def test_a_summary_that_cannot_say_which_column_loses_rows_says_what_leaves_them_out() -> None:
    random, names = np.random.default_rng(2), [f"x{j}" for j in range(12)]
    rows = pd.DataFrame(random.normal(50, 10, (1500, 12)), columns=names)
    rows["y"] = (0.5 + 0.02 * (rows["x0"] - 50)).clip(0, 1)
    declared = dict.fromkeys(names, dp.Range(0, 100, typical=(50, 10))) | {"y": (0, 1)}
    call = {"screen": 3, "split": "rows", "inference": True, "on_mismatch": "go", "seed": 1}
    text = str(dp.ols(f"y ~ {' + '.join(names)}", rows, 1.0, domain=declared, **call).summary())
    lines = " ".join(text.partition("no column loses or clips")[2].split())
    assert " counts smaller faults. Rows with one of 12 columns outside (20, 80) are left out" in lines


def test_a_report_of_such_a_record_is_null() -> None:
    spec = dp.local.Spec(DROPPING, "y ~ x", eps=1.0, delta=1e-5, n=1000)
    assert isinstance(spec.program, Program)
    assert spec.program.encode({"x": 0.5, "y": 0.5}) is not None
    assert spec.program.encode({"x": 1.5, "y": 0.5}) is None


# A replaced row may become nothing, so what a release is calibrated for under replace_one must cover a row removed.

FAMILIES = [Binomial(), Gaussian(residual_cap=0.7), get_family("huber_svm"), dp.families.Poisson(mean_cap=5, y_max=9)]


def both(scale: Callable[[Adjacency], float]) -> bool:
    return scale("replace_one") >= scale("add_remove") * (1 - 1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_objective_covers_a_row_that_becomes_nothing(family: Any, delta: float) -> None:
    """At the scale that replace_one takes, a row removed or added costs no more than eps."""
    common: dict[str, Any] = {"curvature_ratio": 0.05, "row_norm": 1.0, "delta": delta}
    law: Any = "gaussian" if delta else "laplace"
    scale = joint_scale(family, eps=0.8, adjacency="replace_one", **common)
    assert joint_loss(family, scale=scale, adjacency="add_remove", kind=law, **common) <= 0.8 * (1 + 1e-9)
    if not delta:
        del common["delta"]
        spent = [
            joint_information_loss(family, scale=scale, matrix_scale=9.0, adjacency=adjacency, **common)
            for adjacency in ("add_remove", "replace_one")
        ]
        assert spent[0] <= spent[1]


def test_sums_and_choices_cover_a_row_that_becomes_nothing() -> None:
    for a, c in itertools.product((0.01, 0.5, 1.0, 1.4, 1.5, 3.0, 30.0), (1e-9, 0.3, 0.7, 1.0, 2.0, 30.0)):
        assert both(lambda adjacency, a=a, c=c: frobenius_sensitivity(a, c, adjacency))
        assert both(lambda adjacency, a=a: trace_sensitivity(a, adjacency))
    for delta in (0.0, 1e-6):
        assert both(lambda adjacency, delta=delta: choose_noise(8, 64, 0.5, delta, adjacency).scale)
    for law, delta in (("wishart", 0.0), ("normal", 1e-6)):
        assert both(
            lambda adjacency, law=law, delta=delta: matrix_scale(
                law, eps=0.5, delta=delta, weight_bound=0.25, adjacency=adjacency
            )
        )
    for family in FAMILIES:
        assert both(
            lambda adjacency, family=family: output_sensitivity(family, curvature_ratio=2.0, adjacency=adjacency)
        )
    assert both(lambda adjacency: noise_scale(0.5, adjacency))
    assert both(lambda adjacency: trimming_scale(0.5, adjacency))


def moved(domain: dp.Domain, columns: slice) -> float:
    """The most that a replaced row moves the sum of some of a design's columns by, in the Euclidean norm."""
    design = design_of("y ~ x", domain)
    data = [pd.DataFrame({"x": [x], "y": [y]}) for x in (-1.0, 0.0, 0.3, 1.0, 2.0) for y in (0.0, 1.0)]
    sums = [np.asarray(design.rows(as_table(one)).collect()[0].exog).sum(axis=0)[columns] for one in data]
    return float(max(np.linalg.norm(one - other) for one, other in itertools.product(sums, sums)))


def test_a_replaced_row_moves_sums_by_no_more_than_is_noised() -> None:
    """Rows of norm at most 1: a replaced one is covered by 2, and what leaves by 1."""
    assert moved(DROPPING, slice(0, 2)) <= 2.0
    # A removed row alone attains its norm.
    assert moved(DROPPING, slice(0, 2)) >= 1 - 1e-9


def test_a_body_without_the_origin_is_caught() -> None:
    """Planted: sensitivity from differences of rows, which leave the intercept as it is: n were public."""
    differences = moved(dp.Domain(x=(0, 1), y=(0, 1)), slice(0, 1))
    assert differences == 0.0
    assert moved(DROPPING, slice(0, 1)) > 0.5


@pytest.mark.parametrize("term", ["cr(x, df=3)", "bs(x, df=4)", "poly(x, 2)"])
def test_a_warning_says_that_splines_and_polynomials_stay_as_at_the_end(term: str) -> None:
    random = np.random.default_rng(0)
    rows = {"x": random.uniform(0, 1, 3000), "y": random.uniform(0, 1, 3000)}
    fit = dp.ols(f"y ~ 0 + {term}", rows, 5.0, domain={"x": dp.Range(0, 1, outside="drop"), "y": (0, 1)})
    with pytest.warns(UserWarning, match="extrapolations, in which splines and polynomials stay as they are"):
        predicted = fit.predict({"x": [1.0, 1.5, 9.0]}).to_numpy()
    assert predicted.tolist() == [predicted[0]] * 3
