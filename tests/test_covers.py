"""The cases that stand for a full product: none of its pairs is left out."""

from __future__ import annotations

from itertools import combinations, product

from covers import pairwise


def test_every_two_values_meet() -> None:
    options = [list("abcdefg"), list("pqrs"), [0.1, 1.0, 30.0, 1e4], [True, False, None]]
    cases = pairwise(*options)
    assert cases == pairwise(*options)
    assert len(cases) == len(set(cases)) <= 30
    for a, b in combinations(range(len(options)), 2):
        assert {(case[a], case[b]) for case in cases} == set(product(options[a], options[b]))
