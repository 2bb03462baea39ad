"""Every picture renders whole and says what is protected; without matplotlib there is a clear error."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from drawn import DOMAIN, fitted, predicting, without_ends
from looking import caption, faults, rendered
from matplotlib import pyplot
from matplotlib.axes import Axes

import dpstats as dp
from dpstats import plots
from dpstats.errors import ArgumentError
from dpstats.plots.style import CAPTION, SERIES, shorten

ALL: dict[str, Callable[..., Axes]] = {
    "coefficients": lambda fit, bare, evaluation, ax: fit.plot(ax=ax),
    "noise": lambda fit, bare, evaluation, ax: bare.plot(ax=ax),
    "not identified": lambda fit, bare, evaluation, ax: plots.coefficients(without_ends(fit, "x"), ax=ax),
    "shares": lambda fit, bare, evaluation, ax: fit.plot("shares", ax=ax),
    "shares, not identified": lambda fit, bare, evaluation, ax: plots.shares(without_ends(fit, "x"), ax=ax),
    "calibration": lambda fit, bare, evaluation, ax: evaluation.plot("calibration", ax=ax),
    "residuals": lambda fit, bare, evaluation, ax: evaluation.plot("residuals", ax=ax),
    "roc": lambda fit, bare, evaluation, ax: evaluation.plot("roc", ax=ax),
    "effect": lambda fit, bare, evaluation, ax: fit.plot("effect", column="x", at={"group": ["a", "c$_$"]}, ax=ax),
    "effect of levels": lambda fit, bare, evaluation, ax: fit.plot("effect", column="group", ax=ax),
    "hatched": lambda fit, bare, evaluation, ax: plots.effect(predicting(fit, slice(0, 9)), "x", ax=ax),
    "risk": lambda fit, bare, evaluation, ax: plots.budget(bare.plan, n=[1000, 9000], ax=ax),
    "noise by eps": lambda fit, bare, evaluation, ax: plots.budget(bare.plan, what="noise", ax=ax),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_pictures_render_whole_and_say_what_is_protected(
    name: str, fit: dp.GLMResults, bare: dp.GLMResults, evaluation: dp.Evaluation
) -> None:
    ax = ALL[name](fit, bare, evaluation, None)
    assert not faults(ax)
    image = rendered(ax)
    assert len(np.unique(image.reshape(-1, 4), axis=0)) > 50, "not empty"
    said = caption(ax)
    certified = name in ("noise", "risk", "noise by eps")
    assert ("NO GUARANTEE is claimed" in said) != certified
    assert ("Protected" in said) == certified
    if name == "noise":
        assert "whether any one row is in the data" in said
        assert "is eps = 3" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_pictures_can_share_a_figure(
    name: str, fit: dp.GLMResults, bare: dp.GLMResults, evaluation: dp.Evaluation
) -> None:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 6), layout="constrained")
    assert ALL[name](fit, bare, evaluation, right) is right
    assert not left.has_data()
    assert right.figure is figure
    assert pyplot.get_fignums() == [figure.number]
    assert not faults(right)


def test_certified_captions_name_budget_and_neighbours(rows: pd.DataFrame) -> None:
    arguments = {"adjacency": "replace_one", "delta": 1e-6, "seed": None, "noise": "gaussian", "inference": None}
    said = caption(fitted(rows, "y ~ x + z", family="gaussian", eps=0.5, **arguments).plot())
    assert "Protected: the contents of any one row. The guarantee for the fit is eps = 0.5, delta = 1e-06" in said


@pytest.mark.slow
def test_thirty_coefficients_can_be_read(rows: pd.DataFrame) -> None:
    names = [f"a_column_with_a_rather_long_name_{number}" for number in range(30)]
    rng = np.random.default_rng(2)
    data = pd.DataFrame({name: rng.uniform(-1, 1, 3000) for name in names}).assign(y=rng.uniform(-1, 1, 3000))
    many = dp.ols(f"y ~ {' + '.join(names)}", data, 2.0, domain=dict.fromkeys(data, (-1, 1)))
    for ax in (many.plot(), many.plot("effect", column=names[0])):
        assert not faults(ax)
    assert len(many.plot().get_yticks()) == 30
    assert len(caption(many.plot("effect", column=names[0]))) < 700, "29 held columns are not all listed"


def test_the_look_at_texts_finds_faults() -> None:
    """Planted: a label that is cut off, and one that lies on another."""
    _, ax = pyplot.subplots()
    ax.text(0.5, 0.5, "first")
    ax.text(0.5, 0.51, "second")
    ax.set_title("much too long " * 20, loc="left")
    found = faults(ax)
    assert any("lies on" in fault for fault in found)
    assert any("cut off" in fault for fault in found)


def test_long_names_keep_both_ends() -> None:
    assert shorten("occupation[T.Exec-managerial]", 20) == "occupatio…anagerial]"
    assert len(shorten("x" * 99, 20)) == 20
    assert shorten("short", 20) == "short"


def test_an_unknown_kind(fit: dp.GLMResults, evaluation: dp.Evaluation) -> None:
    with pytest.raises(ArgumentError, match="kind must be one of"):
        fit.plot("residuals")
    with pytest.raises(ArgumentError, match="kind must be one of"):
        evaluation.plot("effect")


def lightness(color: str) -> float:
    """CIE lightness of a colour, 0 to 100: what is left to those who see no hue."""
    parts = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


def test_the_first_colours_differ_without_hue() -> None:
    """Two series differ in lightness; further ones have markers and dashes of their own."""
    assert abs(lightness(SERIES[0]) - lightness(SERIES[1])) > 20


def test_without_matplotlib_the_error_names_the_extra(
    fit: dp.GLMResults, evaluation: dp.Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plan = dp.plan("y ~ x", DOMAIN, 1.0)
    for draw in (
        fit.plot,
        lambda: fit.plot("shares"),
        lambda: fit.plot("effect", column="x"),
        evaluation.plot,
        lambda: evaluation.plot("roc"),
        lambda: evaluation.plot("residuals"),
        lambda: plots.budget(plan),
    ):
        with pytest.raises(ArgumentError, match="pip install matplotlib"):
            draw()


@pytest.mark.slow
def test_dpstats_imports_matplotlib_only_to_draw() -> None:
    code = (
        "import sys, dpstats as dp\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plan = dp.plan('y ~ x', {'y': (0, 1), 'x': (0, 1)}, 1.0)\n"
        "print(plan)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "dp.plots.budget(plan, n=10)\n"
        "assert 'matplotlib' in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "MPLBACKEND": "Agg"}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_captions_can_be_turned_off_but_for_the_lack_of_a_guarantee(
    name: str, fit: dp.GLMResults, bare: dp.GLMResults, evaluation: dp.Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = plots.style.finish
    monkeypatch.setattr(plots.style, "finish", lambda *args, **given: finish(*args, **{**given, "caption": False}))
    ax = ALL[name](fit, bare, evaluation, None)
    assert not faults(ax)
    said = [text.get_text() for text in ax.texts if text.get_gid() == CAPTION]
    certified = name in ("noise", "risk", "noise by eps")
    assert said == [] if certified else " ".join(said[0].split()).startswith("NO GUARANTEE is claimed")


def test_every_picture_takes_caption(bare: dp.GLMResults) -> None:
    assert not [text for text in bare.plot(caption=False).texts if text.get_gid() == CAPTION]
    for verb in plots.__all__:
        assert inspect.signature(getattr(plots, verb)).parameters["caption"].default is True, verb
    with pytest.raises(ArgumentError, match="caption must be True or False"):
        bare.plot(caption="none")
