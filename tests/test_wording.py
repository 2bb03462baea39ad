"""Messages name what their reader types: Python's arguments, or the shell's options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats as dp
from dpstats.cli.shared import OPTIONS, shell_argument
from dpstats.mechanisms.options import Options
from dpstats.wording import argument, in_shell, phrase, sentence, shell_wording

PACKAGE = Path(dp.__file__).parent

SOURCES = ("argument", "phrase")
"""What makes such words of a message."""

FACTS = ("eps", "delta")
"""Stated of a guarantee in the same form, as in "at most eps=0.5, delta=1e-06"."""

NAMES = {*OPTIONS, *(one.name for one in fields(Options)), "seed", "allow_uncertified"} - set(FACTS)

BARE = re.compile(rf"(?<![\w.-])({'|'.join(sorted(NAMES))})=")
CALL = re.compile(r"[\w.]+\([^()]*\)")

PYTHON_ALONE = ("audit", "cli", "datasets", "local", "plots", "streaming", "tuning")
"""Rooms that no command enters, and the shell's own, whose words are its own."""

ATTRIBUTES = ("_ROWS", "NOT_BOUGHT", "_QUALITY")
"""Constants that answer who asks a result of Python for what it has not."""


def test_an_argument_is_what_its_reader_types() -> None:
    assert argument("method", "napp") == "method='napp'"
    assert argument("inference", True) == "inference=True"
    assert argument("screen") == "screen="
    assert phrase("dp.check", shell="python -m dpstats check") == "dp.check"
    with shell_wording(shell_argument):
        assert in_shell()
        assert argument("method", "napp") == "--method napp"
        assert argument("inference", True) == "--inference yes"
        assert phrase("dp.check", shell="python -m dpstats check") == "python -m dpstats check"
    assert not in_shell()


def test_a_command_that_fails_leaves_python_its_words() -> None:
    with pytest.raises(ValueError, match="x"), shell_wording(shell_argument):
        raise ValueError("x")
    assert argument("unit") == "unit="


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of all strings but docstrings, reprs and what `SOURCES` are given; values are ``{}``."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SOURCES:
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
            continue
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ATTRIBUTES:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield node.lineno, "".join(parts)
            pending += [one for one in node.values if isinstance(one, ast.FormattedValue)]
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        pending += ast.iter_child_nodes(node)


@cache
def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed once."""
    return {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}


def bare(source: str | ast.AST) -> list[str]:
    """Where messages name an argument as Python alone types it, other than in a call of Python's."""
    found = []
    for line, text in messages(ast.parse(source) if isinstance(source, str) else source):
        left = text
        while (less := CALL.sub("", left)) != left:
            left = less
        found += [f"line {line}: {text}" for _ in BARE.findall(left)]
    return found


def test_messages_name_arguments_by_way_of_the_source() -> None:
    trees = {path: tree for path, tree in modules().items() if path.relative_to(PACKAGE).parts[0] not in PYTHON_ALONE}
    assert len(trees) > 100
    assert {str(path): found for path, tree in trees.items() if (found := bare(tree))} == {}


@pytest.mark.parametrize("room", ["families", "formula"])
def test_calls_of_python_are_named_as_such_where_a_command_may_print_them(room: str) -> None:
    calls = re.compile(r"\bdp\.[a-z]|\.with_\(")
    for path in (PACKAGE / room).glob("*.py"):
        for line, text in messages(modules()[path]):
            assert not calls.search(text) or "Python" in text or text.startswith("dp."), f"{path}:{line}: {text}"


def test_a_bare_argument_is_found() -> None:
    for text in ("take method='napp'", "{x} (screen= chooses)", "needs split='rows', or not", "add refit_share={y}"):
        assert bare(f'def f(x, y):\n    """method=1"""\n    raise ValueError(f"{text}")'), text
        assert bare(f"NOTE = {text!r}")
    for text in ("of eps=1, delta={x}", "dp.families.Poisson(y_max=20)", "{argument('method', 'napp')}", "--unit=x"):
        assert not bare(f'def f(x):\n    raise ValueError(f"{text}")'), text


def test_no_module_words_a_text_when_it_is_imported() -> None:
    """Whoever comes first would settle the words for all."""
    for path, tree in modules().items():
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef):
                pending += [*node.decorator_list, node.args]
                continue
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
            assert called not in (*SOURCES, "in_shell"), f"{path}:{node.lineno}"
            pending += ast.iter_child_nodes(node)


def test_a_sentence_ends_in_one_mark() -> None:
    assert sentence("did you mean that?") == "Did you mean that?"
    assert sentence("a b") == sentence("A b.") == "A b."
    assert sentence("") == "."


QUERY = re.compile(r"\b(VALUES|SELECT|UPDATE)\b")


def test_no_message_has_two_marks_where_one_belongs() -> None:
    """As it is written; what is put together when it is made is below."""
    marks = re.compile(r"[?!][.;:,]|[;:,]\.(?!\.|\w)|\w\.[;:](?!\w)")
    found = {}
    for path, tree in modules().items():
        texts = [text for _, text in messages(tree) if " " in text and not QUERY.search(text) and marks.search(text)]
        found |= {str(path): texts} if texts else {}
    assert found == {}


def test_questions_are_put_together_with_one_mark() -> None:
    plan = dp.plan("y ~ size + g", {"sizes": (0, 1), "g": ["a"], "y": (0, 9)}, 1.0)
    assert "did you mean that?" in " ".join(str(plan.summary()).split())
    data = pd.DataFrame({"x": np.linspace(0, 10, 400), "z": np.linspace(0, 10, 400), "y": 1.0})
    declared = {name: dp.Range(0, 10, outside="drop", inner=(0, 1)) for name in "xz"} | {"y": (0, 2)}
    with pytest.raises(dp.errors.MismatchError, match="Check this range") as caught:
        dp.ols("y ~ x + z", data, 5.0, domain=declared)
    fit = dp.ols("y ~ x + z", data, 5.0, domain=declared, on_mismatch="go")
    check = dp.check("y ~ x + z", data, declared, 5.0)
    for text in (str(plan.summary()), str(caught.value), str(fit), str(fit.summary(full=True)), str(check)):
        assert not re.search(r"[?!;:,][.;:,]", " ".join(text.split())), text
