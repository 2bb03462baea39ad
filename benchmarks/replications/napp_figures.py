"""The paper's figures from the tables of `napp`: paper modes, certified modes, no privacy side by side."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.replications.napp import read

CELL = ["model", "rows", "eps", "delta"]
STYLE: dict[str, dict[str, object]] = {
    "not private": {"color": "black"},
    "one shot": {"color": "tab:blue"},
    "one shot, floor": {"color": "tab:cyan", "linewidth": 2.2},
    "noise aware": {"color": "tab:green"},
    "two stages": {"color": "tab:olive"},
    "VS+": {"color": "tab:red"},
    "VS+ (printed shape)": {"color": "tab:red", "linestyle": ":"},
    "VS+, no MOOR": {"color": "tab:red", "linestyle": "--"},
    "VS": {"color": "tab:purple"},
    "VS, no MOOR": {"color": "tab:purple", "linestyle": "--"},
    "NAPP": {"color": "tab:orange"},
    "DP-ERM": {"color": "tab:orange", "linestyle": "--"},
}
"""Solid: certified, or the paper with the right gamma shape and MOOR; dashed: no MOOR; dotted: the printed shape."""


def tables(delta: float) -> pd.DataFrame:
    """All methods at one delta."""
    whole = pd.concat([read(study) for study in ("selection", "printed", "others")])
    return whole[whole["delta"] == delta]


def grid(table: pd.DataFrame, draw: object, x: str, y: str) -> Figure:
    """One panel a cell of Table 4: models and rows downwards, eps to the right."""
    lines = list(table[["model", "rows"]].drop_duplicates().itertuples(index=False))
    budgets = sorted(table["eps"].unique())
    figure, axes = plt.subplots(
        len(lines), len(budgets), figsize=(2.6 * len(budgets), 2.1 * len(lines)), squeeze=False, layout="constrained"
    )
    for (model, rows), line in zip(lines, axes, strict=True):
        for eps, axis in zip(budgets, line, strict=True):
            cell = table[(table["model"] == model) & (table["rows"] == rows) & (table["eps"] == eps)]
            for name, style in STYLE.items():
                curve = cell[cell["method"] == name].sort_values("strength")
                if len(curve):
                    draw(axis, curve, name, style)  # type: ignore[operator]
            axis.set_title(f"{model}, n = {rows}, eps = {eps:g}", fontsize=8)
            axis.tick_params(labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel(x, fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel(y, fontsize=8)
    handles = {str(line.get_label()): line for axis in axes.flat for line in axis.get_lines()}
    handles = {label: line for label, line in handles.items() if not label.startswith("_")}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def roc(delta: float = 0.0) -> Figure:
    """Fig. 4."""

    def draw(axis: Axes, curve: pd.DataFrame, name: str, style: dict) -> None:
        order = np.argsort(curve["fpr"].to_numpy(), kind="stable")
        axis.plot(curve["fpr"].to_numpy()[order], curve["tpr"].to_numpy()[order], label=name, marker=".", **style)
        axis.set_xlim(-0.02, 1.02)
        axis.set_ylim(-0.02, 1.02)

    return grid(tables(delta), draw, "false positives", "true positives")


def prediction(delta: float = 0.0) -> Figure:
    """Fig. 5; grey: no covariates."""

    def draw(axis: Axes, curve: pd.DataFrame, name: str, style: dict) -> None:
        axis.plot(curve["strength"], curve["error"], label=name, **style)
        axis.set_xscale("log", base=2)
        axis.axhline(float(curve["empty"].iloc[0]), color="grey", linewidth=0.6)

    return grid(tables(delta), draw, "Lambda", "test error")


def retrieved(delta: float = 1e-3) -> Figure:
    """Fig. 7: the share of the Jacobian's half of eps said to be spare (paper) or proved to be so (certified)."""

    def draw(axis: Axes, curve: pd.DataFrame, name: str, style: dict) -> None:
        if name != "not private" and curve["retrieved"].notna().all():
            axis.plot(curve["strength"], curve["retrieved"], label=name, **style)
            axis.set_xscale("log", base=2)
            axis.set_ylim(-0.05, 1.55)

    table = tables(delta)
    kept = table["eps"].isin([0.4, 1.0]) & ~table["method"].isin(["one shot, floor", "noise aware", "two stages"])
    return grid(table[kept], draw, "Lambda", "share retrieved")


def recycling() -> Figure:
    """Fig. 8: linear regression with (dashed) and without (solid) recycled budget."""
    table = read("recycling")
    colours = {"NAPP": "tab:orange", "VS": "tab:purple", "VS+": "tab:red", "one shot": "tab:blue"}
    cells = list(table[["rows", "eps"]].drop_duplicates().itertuples(index=False))
    figure, axes = plt.subplots(2, len(cells), figsize=(3 * len(cells), 5), layout="constrained")
    for (rows, eps), (above, below) in zip(cells, axes.T, strict=True):
        cell = table[(table["rows"] == rows) & (table["eps"] == eps)]
        for name, curve in cell.groupby("method", sort=False):
            base = str(name).split(",")[0]
            style = {"color": colours[base], "linestyle": "--" if "recycled" in str(name) else "-"}
            curve = curve.sort_values("strength", ascending=False)
            above.plot(curve["fpr"], curve["tpr"], label=name, **style)
            below.plot(curve["strength"], curve["error"], **style)
        above.set_title(f"linear, n = {rows}, eps = {eps:g}", fontsize=9)
        below.set_xscale("log", base=2)
    axes[0, 0].set_ylabel("true against false positives")
    axes[1, 0].set_ylabel("test error against Lambda")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def moor(lambda0: float = 1.0) -> Figure:
    """Fig. 3, at one Lambda_0."""
    table = read("moor")
    table = table[table["lambda0"] == lambda0]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
    styles = {
        "MOOR": {"color": "tab:red"},
        "no MOOR": {"color": "tab:red", "linestyle": "--"},
        "additive, certified": {"color": "tab:blue"},
        "MOOR, to twice the lasso": {"color": "tab:red", "linestyle": ":"},
    }
    for axis, (model, rows) in zip(axes, table.groupby("model", sort=False), strict=True):
        for name, style in styles.items():
            axis.plot(rows["strength"], rows[name], label=name, **style)
        axis.set_xscale("log", base=2)
        axis.set_title(str(model), fontsize=9)
        axis.set_xlabel("Lambda", fontsize=8)
    axes[0].set_ylabel("distance to the lasso")
    axes[0].legend(fontsize=7)
    return figure


def adult() -> Figure:
    """Fig. 6. At eps = 0.1 VS+ with the right shape lies above the frame, at 0.62."""
    table = read("adult")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, (gains, rows) in zip(axes, table.groupby("gains", sort=False), strict=True):
        rows = rows[rows["strength"] == 1.0]
        plain = rows[rows["method"] == "not private"]["error"]
        axis.axhline(float(plain.iloc[0]), color="black", label="not private")
        for name, style in STYLE.items():
            for delta, marker in ((0.0, "o"), (1e-5, "x")):
                curve = rows[(rows["method"] == name) & (rows["delta"] == delta) & np.isfinite(rows["eps"])]
                if len(curve):
                    label = f"{name}, delta = {delta:g}"
                    axis.plot(curve["eps"], curve["error"], marker=marker, label=label, **style)
        axis.set_xscale("log")
        axis.set_title(f"capital gains and losses: {gains}", fontsize=9)
        axis.set_ylim(0.145, 0.27)
        axis.set_xlabel("eps")
    axes[0].set_ylabel("misclassified")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
    return figure


def comparison() -> pd.DataFrame:
    """Who wins in how many cells of Table 4: each certified mode against VS+ with the right gamma shape.

    Returns
    -------
    DataFrame
        One row a certified mode: cells; auc, those whose area is no less; error, those whose least error over the
        strengths is no greater; each, the share of all (cell, strength) with an error no greater; worst, the greatest
        error over the one with no covariates, over all cells and strengths.
    """
    from benchmarks.replications.napp_studies import CERTIFIED, curves

    table = read("selection")
    facts = curves(table).pivot_table(index=CELL, columns="method", values=["auc", "best", "worst"], sort=False)
    errors = table.pivot_table(index=[*CELL, "strength"], columns="method", values="error", sort=False)
    empty = table.groupby(CELL, sort=False)["empty"].first()
    lines = {}
    for name in CERTIFIED:
        lines[name] = {
            "cells": len(facts),
            "auc": int(np.sum(facts["auc", name] >= facts["auc", "VS+"])),
            "error": int(np.sum(facts["best", name] <= facts["best", "VS+"])),
            "each": float(np.mean(errors[name] <= errors["VS+"])),
            "worst": float(np.max(facts["worst", name] / empty)),
        }
    return pd.DataFrame(lines).T.round(3)


def areas(delta: float = 0.0) -> pd.DataFrame:
    """Areas under the curves of Fig. 4, one row a cell."""
    from benchmarks.replications.napp_studies import curves

    facts = curves(tables(delta))
    order = [name for name in STYLE if name in set(facts["method"])]
    return facts.pivot_table(index=["model", "rows", "eps"], columns="method", values="auc", sort=False)[order].round(2)
