"""Sums within groups: what one row, or one group, can move, exactly; planted bugs; integers rounded once a group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from wishart_law import log_ratio

from dpstats.data import Block
from dpstats.data.persons import OwnedRows
from dpstats.privacy.information.statistics import frobenius_sensitivity, statistics_noise, trace_sensitivity
from dpstats.privacy.information.within import (
    MOST_MACHINE,
    PARTS,
    WithinLattice,
    WithinSums,
    _reach,
    noisy_scores,
    within_sums,
)

Rows = list[tuple[int, tuple[float, ...]]]
"""Groups and their rows (x, y)."""


def owned(rows: Rows, levels: np.ndarray | None = None) -> OwnedRows[Block]:
    cells = np.array([row for _, row in rows], dtype=float).reshape(len(rows), -1)
    groups = np.array([group for group, _ in rows], dtype=np.uint64)
    ids = np.column_stack([np.zeros(len(rows), dtype=np.uint64), groups])
    return OwnedRows(Block(cells[:, :-1], cells[:, -1], levels=levels), ids)


@dataclass(frozen=True)
class Multiples:
    """Cells times a whole number, in the place of a lattice."""

    times: int
    size: int = 2
    whole: bool = False

    def integers(self, block: Block) -> np.ndarray:
        return np.rint(np.column_stack([block.exog, block.endog]).T * self.times)


def dummies(levels: int) -> np.ndarray:
    """The whitened columns of a factor at each of its levels."""
    values = np.eye(levels)[:, 1:]
    values = values - values.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(values.T @ values / levels), values.T).T


def lattice(*, whole: bool = False, numbers: int = 2, factors: tuple[int, ...] = ()) -> WithinLattice:
    tables = tuple(dummies(levels) for levels in factors)
    return WithinLattice(np.arange(numbers), np.zeros(numbers), np.ones(numbers), tables, (0.0, 1.0), whole)


def moved(found: WithinSums, other: WithinSums) -> np.ndarray:
    """By what the sums differ, in the lattice's coordinates."""
    return np.array((other.total - found.total).astype(float)) / 4.0**20


BASE: Rows = [(0, (0.5, -1)), (0, (1, 0.2)), (0, (-0.3, 0.4)), (1, (0, 1))]
"""The reference data: one column, and the response."""


def test_reference_changes() -> None:
    """Derived by hand. 60 times the cells are whole, and so are the squares of their sums over 2, 3 and 4: exact."""
    row, times = (-1.0, 1.0), Multiples(60)
    before = within_sums(times, [owned(BASE)]).total

    def change(rows: Rows) -> list[Fraction]:
        after = within_sums(times, [owned(rows)]).total - before
        return [Fraction(int(after[place]), 3600) for place in ((0, 0), (0, 1), (1, 1))]

    assert change([*BASE, (0, row)]) == [Fraction(147, 100), Fraction(-119, 100), Fraction(289, 300)]
    assert change([*BASE, (1, row)]) == [Fraction(1, 2), 0, 0]
    assert change([*BASE[1:], (1, row)]) == [Fraction(485, 1000), Fraction(13, 100), Fraction(-169, 150)]
    assert [round(289 / 300, 4), round(-169 / 150, 4)] == [0.9633, -1.1267]


def test_reference_variance_of_three_points_in_a_group_of_its_own() -> None:
    rows: Rows = [(0, (-1.0, 0.0)), (0, (1.0, 0.0)), (0, (1.0, 0.0))]
    one = lattice(whole=True, numbers=1)
    found = within_sums(one, [owned(rows)]).total[0, 0] / one.bounded.caps[0] ** 2
    assert found == pytest.approx(8 / 9, rel=1e-9)


@pytest.mark.parametrize("levels", [2, 3, 5, 40])
def test_a_factor_costs_twice_its_levels(levels: int) -> None:
    """Not four times its columns; and as much as its columns where groups are the records."""
    assert _reach(dummies(levels), whole=False) == pytest.approx(2 * levels)
    assert _reach(dummies(levels), whole=True) == pytest.approx(levels - 1)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("numbers", "factors"), [(1, ()), (3, ()), (2, (3,)), (0, (5, 2)), (4, (30, 7))])
def test_the_body_is_within_its_bounds(numbers: int, factors: tuple[int, ...], whole: bool) -> None:
    """In whole numbers, for every pair of points; and hardly any room is wasted."""
    body = lattice(whole=whole, numbers=numbers, factors=factors).bounded
    spread = 1 if whole else 4
    longest = spread * sum(cap**2 for cap in body.caps)
    for table in body.tables:
        points = [[int(cell) for cell in row] for row in table]
        pairs = [(a, [0] * len(a)) for a in points] if whole else [(a, b) for a in points for b in points]
        longest += max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs)
    assert 0.999 * 4**20 <= longest <= 4**20
    assert body.response * (1 if whole else 2) <= 2**20


def neighbours(rng: np.random.Generator, adjacency: str, size: int = 2) -> tuple[Rows, Rows]:
    """Data and neighbours by a row; corners of the body as a rule, some groups large."""
    corner = lambda: tuple(rng.choice([-1.0, 1.0], size + 1) * rng.choice([1.0, 1.0, 0.3], size + 1))  # noqa: E731
    rows = [(group, corner()) for group in range(3) for _ in range(int(rng.choice([1, 2, 60])))]
    point = corner()
    # One group stands at a corner: what comes to the other one moves the most.
    rows += [(3, point)] * int(rng.choice([1, 5, 400]))
    opposite = tuple(-cell for cell in point)
    added = (int(rng.integers(5)), corner()) if rng.random() < 0.5 else (3, opposite)
    return (rows, [*rows, added]) if adjacency == "add_remove" else (rows, [*rows[1:], added])


def norms(change: np.ndarray, response: float) -> tuple[float, float]:
    """The nuclear norm with y times a / sqrt 2, and the norm of (X'X, a X'y, y'y / 10)."""
    unit = np.diag([*[1.0] * (len(change) - 1), response / math.sqrt(2)])
    nuclear = float(np.abs(np.linalg.eigvalsh(unit @ change @ unit)).sum())
    squares = np.sum(change[:-1, :-1] ** 2) + response**2 * np.sum(change[:-1, -1] ** 2) + 0.01 * change[-1, -1] ** 2
    return nuclear, math.sqrt(float(squares))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_row_moves_more_than_declared(adjacency: str) -> None:
    rng, bounded, response = np.random.default_rng(1), lattice(), 0.9
    found = []
    for _ in range(50):
        before, after = (within_sums(bounded, [owned(rows)]) for rows in neighbours(rng, adjacency))
        found.append(norms(moved(before, after), response))
        assert abs(after.spare - before.spare) <= 1
        assert abs(after.groups - before.groups) <= 1
    nuclear, length = np.max(found, axis=0)
    trace = trace_sensitivity(response, adjacency)  # type: ignore[arg-type]
    together = frobenius_sensitivity(response, 0.1, adjacency)  # type: ignore[arg-type]
    assert nuclear <= trace * (1 + 1e-9)
    assert length <= together * (1 + 1e-9)
    if adjacency == "add_remove":
        assert nuclear >= 0.98 * trace
        assert length >= 0.98 * together


def test_planted_rows_bounded_in_the_place_of_their_differences() -> None:
    """K for K - K, the bound of sums that are not within groups: caught."""
    rng, bounded = np.random.default_rng(1), lattice(whole=True)
    wrong = WithinLattice(
        *(getattr(bounded, name) for name in ("numbers", "middles", "halves", "tables", "response")), False
    )
    object.__setattr__(wrong, "bounded", bounded.bounded)
    found = 0.0
    for _ in range(15):
        before, after = (within_sums(wrong, [owned(rows)]) for rows in neighbours(rng, "add_remove"))
        found = max(found, norms(moved(before, after), 0.9)[0])
    assert found > 2 * trace_sensitivity(0.9)


def test_planted_differences_are_shortened_in_the_place_of_rows() -> None:
    """Rows less their group's mean, shortened to 1: one row moves the mean, and with it how all others are cut."""

    def shortened(cells: np.ndarray) -> np.ndarray:
        apart = cells - cells.mean(axis=0)
        length = np.linalg.norm(apart, axis=1, keepdims=True)
        apart = apart * np.minimum(1.0, 1.0 / np.maximum(length, 1e-9))
        return np.asarray(apart.T @ apart)

    rows = np.repeat([[-1.3, 0.8], [0.9, -1.1], [0.5, -0.8]], [267, 98, 14], axis=0)
    change = shortened(np.vstack([rows, [[1.4, -1.4]]])) - shortened(rows)
    assert np.abs(np.linalg.eigvalsh(change)).sum() > 3  # of squares of at most 1 a row


def groups_apart(rng: np.random.Generator, size: int = 2) -> Rows:
    """One group of rows at corners, many shapes."""
    rows = rng.choice([-1.0, 1.0], (int(rng.choice([2, 3, 4, 50])), size + 1))
    if rng.random() < 0.5:  # rank one: all columns move together
        rows = np.sign(rows[:, :1]) * np.ones((1, size + 1)) * rng.choice([-1.0, 1.0], size + 1)
    return [(7, tuple(row)) for row in rows]


def test_no_group_moves_more_than_declared_as_a_record() -> None:
    """No doubling, of any number of rows; pairs of groups by the joint bound (proof page, 4)."""
    rng, bounded, response = np.random.default_rng(2), lattice(whole=True), 0.9
    changes = [moved(within_sums(bounded, []), within_sums(bounded, [owned(groups_apart(rng))])) for _ in range(60)]
    single = np.max([norms(change, response) for change in changes], axis=0)
    assert 0.98 * trace_sensitivity(response) <= single[0] <= trace_sensitivity(response) * (1 + 1e-9)
    assert 0.98 * frobenius_sensitivity(response, 0.1) <= single[1] <= frobenius_sensitivity(response, 0.1) * (1 + 1e-9)
    pairs = [norms(one - other, response) for one in changes[:30] for other in changes[30:]]
    assert np.max(pairs, axis=0)[0] <= trace_sensitivity(response, "replace_one") * (1 + 1e-9)
    assert np.max(pairs, axis=0)[1] <= frobenius_sensitivity(response, 0.1, "replace_one") * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_exact_density_of_the_pure_noise(whole: bool) -> None:
    """The log-ratio of what neighbours release never passes eps, and comes near it."""
    eps, rng, bounded = 0.7, np.random.default_rng(3), lattice(whole=whole)
    noise, ratios = statistics_noise(2, eps=eps), []
    for index in range(10):
        pair = ([], groups_apart(rng)) if whole else neighbours(rng, "add_remove")
        before, after = (within_sums(bounded, [owned(rows)] if rows else []) for rows in pair)
        added = moved(before, after) / noise.factors
        if not np.abs(added).sum() > 1e-9:
            continue
        point = noise.unit.unit_sample(rng) if index % 2 else 3 * added
        ratios += [abs(log_ratio(at, added, noise.scale)) for at in (point, point + added)]
    assert 0.9 * eps <= max(ratios) <= eps * (1 + 1e-6)


def exact(rows: Rows, bounded: WithinLattice) -> list[list[Fraction]]:
    """The sums as fractions, without rounding."""
    cells = bounded.integers(owned(rows).cells)
    size, total = len(cells), [[Fraction(0)] * len(cells) for _ in cells]
    for group in {group for group, _ in rows}:
        places = [at for at, (own, _) in enumerate(rows) if own == group]
        n = len(places)
        for i in range(size):
            for j in range(size):
                one, other = ([int(cells[k, at]) for at in places] for k in (i, j))
                inner = Fraction(sum(a * b for a, b in zip(one, other, strict=True)))
                total[i][j] += (inner - Fraction(sum(one) * sum(other), n)) / (n if bounded.whole else 1)
    return total


@pytest.mark.parametrize("whole", [False, True])
def test_sums_are_exact_but_for_one_rounding_a_group(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order and in pieces, groups beyond 64 bits among them."""
    rng, bounded = np.random.default_rng(4), lattice(whole=whole)
    rows = [(int(group), tuple(rng.uniform(-1.2, 1.2, 3))) for group in rng.integers(0, 9, 300)]
    rows += [(99, tuple(rng.uniform(-1, 1, 3))) for _ in range(5)]
    found = within_sums(bounded, [owned(rows)])
    reference = exact(rows, bounded)
    for i in range(3):
        for j in range(3):
            assert abs(int(found.total[i, j]) - reference[i][j]) <= Fraction(10, 2)
    shuffled = [rows[at] for at in rng.permutation(len(rows))]
    pieces = [owned(shuffled[at : at + 50]) for at in range(0, len(rows), 50)]
    monkeypatch.setattr("dpstats.privacy.information.within.MOST_MACHINE", 20)
    again = within_sums(bounded, pieces)
    assert (again.total == found.total).all()
    assert (again.spare, again.groups) == (found.spare, found.groups) == (305 - 10, 10)


def test_machine_integers_hold_the_largest_groups() -> None:
    """All rows at corners, as many as are reckoned in 64 bits."""
    for whole in (False, True):
        bounded = lattice(whole=whole, numbers=1)
        rows: Rows = [(0, (1.0, 1.0)), (0, (-1.0, -1.0))] * (MOST_MACHINE // 2)
        found = within_sums(bounded, [owned(rows)]).total
        assert int(found[1, 1]) == bounded.bounded.response**2 * (1 if whole else MOST_MACHINE)


def test_a_second_factor_has_no_bound() -> None:
    """A row that closes a chain of units and periods adds the number of links and one; with one factor at most 4."""
    for links, added in ((3, 4), (5, 6), (9, 10), (99, 100)):
        # Unit k is seen in periods k and k + 1; the closing row joins the last unit to the first period.
        half = (links + 1) // 2
        seen = [(unit, period) for unit in range(half) for period in (unit, unit + 1) if period < half]
        cells = [1.0 if unit == period else -1.0 for unit, period in seen]
        table = np.zeros((len(seen) + 1, 2 * half))
        for place, (unit, period) in enumerate([*seen, (half - 1, 0)]):
            table[place, [unit, half + period]] = 1.0
        values = np.array([*cells, -1.0])

        def within(rows: int, values: np.ndarray = values, table: np.ndarray = table) -> float:
            residual = values[:rows] - table[:rows] @ np.linalg.lstsq(table[:rows], values[:rows], rcond=None)[0]
            return float(residual @ residual)

        assert len(seen) == links
        assert within(links) == pytest.approx(0, abs=1e-8)
        assert within(links + 1) == pytest.approx(added)


def test_reference_degrees_of_freedom() -> None:
    """Groups of two rows, sigma 1: over rows less groups the variance is right, over rows it is half."""
    rng = np.random.default_rng(5)
    x, noise = rng.normal(size=(2, 40_000, 2))
    x, y = (part - part.mean(axis=1, keepdims=True) for part in (x, 0.3 * x + noise))
    slope = float((x * y).sum() / (x * x).sum())
    left = float(((y - slope * x) ** 2).sum())
    assert left / (80_000 - 40_000 - 1) == pytest.approx(1.003, abs=0.02)
    assert left / (80_000 - 1) == pytest.approx(0.501, abs=0.01)


def test_scores_of_a_group_are_bounded_and_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def exactly(values: np.ndarray, sensitivity: int, eps: float, random: object) -> np.ndarray:
        taken.append((values, sensitivity))
        return values

    monkeypatch.setattr("dpstats.privacy.information.within.noisy_integers", exactly)
    rng = np.random.default_rng(6)
    matrices = rng.integers(-(2**40), 2**40, (50, 6))
    options = {"eps": 1.0, "records": 1, "random": rng}
    contrasts, residual = rng.normal(size=(2, 2)), np.array([0.3, -0.2, 1.0])
    for bound in (0.01, 1.0, 50.0):
        every = noisy_scores(matrices, contrasts, residual, bound, **options)  # type: ignore[arg-type]
        values, sensitivity = taken[-1]
        assert sensitivity == PARTS
        apart = []
        for one in matrices:
            noisy_scores(one[None], contrasts, residual, bound, **options)  # type: ignore[arg-type]
            apart.append(taken[-1][0])
            assert 0 <= taken[-1][0].sum() <= PARTS
        assert (np.sum(apart, axis=0) == values).all()
        if bound == 50.0:  # nothing is cut
            full = np.zeros((50, 3, 3))
            full[:, *np.triu_indices(3)] = matrices * 4.0**-20
            full = full + np.triu(full, 1).transpose(0, 2, 1)
            assert every == pytest.approx((((full @ residual)[:, :2] @ contrasts.T) ** 2).sum(axis=0), rel=1e-6)
