"""What contributors who lie do to a fit of reports: ``python -m benchmarks.audits.poisoning [collections]``.

Of n reports on the guide's model some are made to move one coefficient as far as they can: by a false record that is
reported honestly; by integers as far out as honest ones can be; and by 40 deviations of noise in every integer, which
was let through before. Shown, as means over collections, is by how many standard deviations of the reports' noise the
coefficient moves that moves most, and how far the income of 10 more hours moves, which is 6.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

import dpstats as dp
from dpstats.local.contributor import on_lattice, statistics
from dpstats.local.transport import ReportBounds, report_bounds

DOMAIN = {"hours": (0, 80), "urban": ["no", "yes"], "income": (0, 100)}
EPS, DELTA = 2.0, 1e-6
SIZES = ((500, 1), (500, 5), (5000, 1), (5000, 5), (5000, 50))
WAYS = ("a false record", "the end of what is honest", "40 deviations")
STEP = 0.5
"""Of derivatives of the fit by the sums, in deviations of the sums' noise."""

Vector = NDArray[np.float64]


def specification(n: int) -> dp.local.Spec:
    """The guide's."""
    return dp.local.Spec(DOMAIN, "income ~ hours + urban", eps=EPS, delta=DELTA, n=n)


def sums(spec: dp.local.Spec, count: int, random: np.random.Generator) -> Vector:
    """The sum of so many honest reports, whose noise is drawn at once."""
    hours, urban = random.uniform(10, 60, count), random.random(count) < 0.5
    income = 10 + 0.6 * hours + 8 * urban + random.normal(0, 8, count)
    rows = [
        spec.program.encode({"hours": h, "urban": "yes" if u else "no", "income": i})
        for h, u, i in zip(hours, urban, income, strict=True)
    ]
    exog, endog = np.array([row for row, _ in rows if row is not None]), np.array([y for _, y in rows])
    said = on_lattice(statistics(exog, endog, spec), spec).sum(axis=0)
    return said + random.normal(size=spec.size) * spec.lattice.scale * math.sqrt(count)


def fitted(spec: dp.local.Spec, values: Vector) -> dp.local.LocalResults:
    """The fit to n reports with this sum."""
    return dp.local.fit(dp.local.Total(spec.hash, np.rint(values).astype(np.int64), spec.n), spec)


def farthest(along: Vector, bounds: ReportBounds) -> Vector:
    """The report within the bounds that moves a sum most in a direction."""
    low, high = 0.0, 1e3 * bounds.norm / float(np.linalg.norm(along))
    for _ in range(100):
        middle = (low + high) / 2
        inside = np.linalg.norm(np.clip(middle * along, bounds.lower, bounds.upper)) <= bounds.norm
        low, high = (middle, high) if inside else (low, middle)
    found: Vector = np.clip(low * along, bounds.lower, bounds.upper)
    return found


def lie(along: Vector, spec: dp.local.Spec) -> Vector:
    """What the worst record says, of a grid."""
    records = [{"hours": h, "urban": u, "income": i} for h in range(0, 81, 8) for u in ("no", "yes") for i in (0, 100)]
    rows = [row for row in map(spec.program.encode, records) if row is not None]
    said = on_lattice(statistics(np.array([row for row, _ in rows]), np.array([y for _, y in rows]), spec), spec)
    worst: Vector = said[np.argmax(said @ along)].astype(np.float64)
    return worst


def attacks(spec: dp.local.Spec, liars: int, seed: int) -> dict[str, tuple[float, float]]:
    """For each way of lying: deviations of the coefficient that moves most, and by how much 10 hours move."""
    random = np.random.default_rng(seed)
    deviation = spec.lattice.scale * math.sqrt(spec.n)
    kept, whole = sums(spec, spec.n - liars, random), sums(spec, liars, random)
    base = fitted(spec, kept + whole)
    noise_sd, hours = base.tidy()["noise_sd"].to_numpy(), spec.names.index("hours")
    steps = np.eye(spec.size) * STEP * deviation
    moved = np.array([fitted(spec, kept + whole + step).params - base.params for step in steps])
    noise = random.normal(size=spec.size) * spec.lattice.scale * math.sqrt(liars)
    before = math.ceil(spec.lattice.sensitivity) + 40 * spec.lattice.scale
    found = {name: np.zeros(len(noise_sd)) for name in WAYS}
    for place in range(len(noise_sd)):
        for along in (moved[:, place], -moved[:, place]):
            said = (
                lie(along, spec) * liars + noise,
                farthest(along, report_bounds(spec)) * liars,
                before * np.sign(along) * liars,
            )
            for name, part in zip(WAYS, said, strict=True):
                shift = abs(fitted(spec, kept + part).params.iloc[place] - base.params.iloc[place])
                found[name][place] = max(found[name][place], shift)
    return {name: (float((shifts / noise_sd).max()), 10 * float(shifts[hours])) for name, shifts in found.items()}


def main(collections: int = 20) -> None:
    """One line for each number of reports and of liars."""
    for n, liars in SIZES:
        spec = specification(n)
        found = [attacks(spec, liars, seed) for seed in range(collections)]
        reach, norm = spec.lattice.reach(DELTA), report_bounds(spec).norm / spec.lattice.scale
        print(f"n {n}, liars {liars}: R {reach:.1f}, norm {norm:.1f}")
        for name in WAYS:
            shift, hours = np.mean([one[name] for one in found], axis=0)
            print(f"    {name}: {shift:.2f} standard deviations, 10 hours by {hours:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
