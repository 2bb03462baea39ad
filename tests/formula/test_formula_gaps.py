"""Notes on expressions that are not finite on all of the declared ranges."""

from __future__ import annotations

import pytest

import dpstats as dp

DOMAIN = {"y": (0, 10), "lt": (-1, 4), "t": (0, 5), "z": (-2, 2)}


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (
            "y ~ offset(np.log(lt))",
            "The logarithm of the exposure lt is not finite for lt from -1 to 0: rows there are left out; if lt is a "
            "logarithm already, pass it as offset, not as exposure",
        ),
        ("y ~ offset(np.log(t))", "The logarithm of the exposure t is not finite at t = 0: rows there are left out"),
        ("y ~ np.sqrt(z)", "np.sqrt(z) is not finite for z from -2 to -0.01: rows there are left out"),
        ("np.log(y) ~ z", "np.log(y) is not finite at y = 0: rows there are left out"),
        ("y ~ np.log(t + z)", "np.log(t + z) is not finite on part of the declared ranges: rows there are left out"),
    ],
)
def test_the_part_of_the_range_is_said(formula: str, said: str) -> None:
    assert dp.plan(formula, DOMAIN, 1.0).design.notes == (said,)


def test_nothing_is_said_of_what_is_finite_everywhere() -> None:
    assert dp.plan("y ~ offset(np.exp(t)) + z", DOMAIN, 1.0).design.notes == ()


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        ("y ~ age*g + z", "age"),
        ("y ~ age + g + age:C(g, Sum)", ""),  # another term than the factor's own
        ("y ~ age + age:g", ""),
        ("y ~ age*year", "age, year"),
        ("y ~ center(age)*g", ""),
        ("y ~ z*g + age", ""),
        ("y ~ age + I((age - 54)**2)", ""),
    ],
)
def test_numbers_far_from_zero_in_interactions_are_pointed_out(formula: str, named: str) -> None:
    """Of `g` there is then the coefficient at age = 0."""
    domain = {**DOMAIN, "age": (17, 90), "year": (1990, 2020), "g": ["a", "b"]}
    notes = dp.plan(formula, domain, 1.0).design.notes
    assert len(notes) == bool(named)
    assert all(note.startswith(f"Interactions with {named} (0 is outside the range)") for note in notes)
    assert all("center(age) in its place" in note for note in notes)


def test_raw_powers_of_numbers_far_from_zero_are_pointed_out() -> None:
    domain = {**DOMAIN, "age": (17, 90)}
    (note,) = dp.plan("y ~ age + I(age**2)", domain, 1.0).design.notes
    assert "I((age - 53.5) ** 2) in its place" in note
    assert dp.plan("y ~ z + I(z**2)", domain, 1.0).design.notes == ()
