"""What the package releases, prints, stores and refuses is what it was: every call of tests/data/corpus_cases.txt.

A case that differs by intent is recorded anew, and what has changed is said in CHANGELOG.md:

    python tests/data/make_corpus.py --record PART...
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import make_corpus
import numpy as np
import pytest
from corpus_text import lines

import dpstats as dp


@pytest.mark.slow
@pytest.mark.parametrize("group", make_corpus.GROUPS)
def test_it_is_as_recorded(group: str) -> None:
    found = make_corpus.compare(group, exact=os.environ.get("DPSTATS_CORPUS") == "exact")
    assert not found, make_corpus.report(group, found)


def test_a_difference_has_a_case_and_its_lines() -> None:
    call = 'fit("lab ~ x", verb=dp.logit)'
    before = make_corpus.recorded("families")[call]
    found = make_corpus.differences([line.replace("binomial", "poisson") for line in before], before)
    said = make_corpus.report("families", {call: found})
    assert call in said
    assert "- .repr: '<GLMResults: poisson" in said
    assert "+ .repr: '<GLMResults: binomial" in said


def test_the_last_bit_of_a_release_is_a_difference_and_that_of_an_error_is_not() -> None:
    values = np.array([1.5, -0.25])
    moved = np.nextafter(values, np.inf)
    for mark, same in (("=", False), ("", True)):
        before, now, far = (list(lines(one, "values", mark)) for one in (values, moved, values * (1 + 1e-5)))
        assert (make_corpus.differences(before, now) == []) is same
        assert make_corpus.differences(before, now, exact=True)
        assert make_corpus.differences(before, far)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("noise of scale 0.475978509670104", "noise of scale 0.475978509670109", True),
        ("noise of scale 0.475978509670104", "noise of scale 0.475988509670104", False),
        ("std err 0.104", "std err 0.105", False),
        ("plan: #0123456789abcdef", "plan: #fedcba9876543210", True),
        ("eps 2", "eps 3", False),
        ("0x1.8000000000000p+1 'a'", "0x1.8000000000001p+1 'b'", False),
    ],
)
def test_texts_may_differ_by_the_last_of_many_digits_alone(old: str, new: str, same: bool) -> None:
    assert make_corpus.alike(old, new) is same


def test_a_table_of_calls_is_written_out() -> None:
    found = make_corpus.groups("# of two\n[one]\nfit(<<a|b\\|c>>, <<|x=[1]>>)\n[two]\nplan()\n")
    assert found == {"one": ["fit(a)", "fit(a, x=[1])", "fit(b|c)", "fit(b|c, x=[1])"], "two": ["plan()"]}


def test_cases_end_in_results_or_in_errors_of_dpstats() -> None:
    faults = {
        call: text[0]
        for group in make_corpus.GROUPS
        for call, text in make_corpus.recorded(group).items()
        if text[0].startswith(make_corpus.RAW)
    }
    assert not faults


def test_nothing_but_public_names_is_used() -> None:
    """Internal modules move; what is imported and called here has a place in the documentation."""
    folder = Path(make_corpus.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("corpus_*.py")) + (folder / "corpus_cases.txt").read_text()
    rooms = {path.stem for path in Path(dp.__file__).parent.iterdir() if path.stem[0] != "_"}
    public = {
        "audit",
        "families",
        "penalties",
        "plots",
        "privacy",
        "streaming",
        "local",
        "datasets",
        "errors",
        "proofs",
    }
    used = set(re.findall(r"(?:from dpstats\.|import dpstats\.|\bdp\.)(\w+)", text)) & (rooms - set(dp.__all__))
    assert used <= public
