"""What the documentation says can be run, and what it points at exists."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dpstats
from dpstats.call import Options

ROOT = Path(__file__).resolve().parents[1]
GUIDE = [
    path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "vignettes"} & set(path.relative_to(ROOT).parts)
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(GUIDE)]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dpstats.__path__, "dpstats.")
    if not module.name.endswith("__main__")
)


def test_every_page_with_blocks_is_one_that_the_build_of_the_documentation_runs() -> None:
    """README.md apart, which is run below. What the build does not find in a table of contents is an error of its."""
    outside = [page.name for page in PAGES if ROOT / "docs" not in page.parents and "```python" in page.read_text()]
    assert outside == ["README.md"]
    assert (ROOT / "docs" / "vignettes").resolve() == ROOT / "vignettes"
    vignettes = list((ROOT / "vignettes").glob("*.md"))
    assert vignettes
    assert not [page.name for page in vignettes if "```python" not in page.read_text()]


def test_links_lead_somewhere() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in PAGES
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text())
        if not (path.parent / target).exists()
    ]
    assert not missing


def run_examples(module: ModuleType) -> int:
    """How many examples of a module's docstrings fail; those of a method go on from those of its class."""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    classes: dict[str, dict[str, object]] = {}
    for test in sorted(doctest.DocTestFinder().find(module), key=lambda test: test.name.count(".")):
        within = test.name.rpartition(".")[0]
        test.globs.update(classes.get(within, {}))
        runner.run(test, clear_globs=False)
        classes[test.name] = test.globs
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
    return runner.failures


@pytest.mark.slow
@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in MODULES}))
def test_docstring_examples_run(room: str) -> None:
    names = [name for name in MODULES if name.split(".")[1] == room]
    failures = {name: run_examples(importlib.import_module(name)) for name in names}
    assert not {name: count for name, count in failures.items() if count}, "what they print is shown below"


PLANTED = '''
class A:
    """
    >>> a = 1
    """
    def f(self):
        """
        >>> a
        2
        """
'''


def test_a_failing_example_of_a_method_is_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """Planted: it goes on from the class's example."""
    module = ModuleType("with_a_wrong_example")
    exec(PLANTED, vars(module))
    assert run_examples(module) == 1
    assert "Expected:\n    2\nGot:\n    1" in capsys.readouterr().out


def documented(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Public functions and classes by name, those of public folders among them."""
    for name in value.__all__:  # type: ignore[attr-defined]
        one = getattr(value, name)
        if isinstance(one, ModuleType):
            if hasattr(one, "__all__"):
                yield from documented(one, f"{prefix}{name}.")
        elif isinstance(one, type) or callable(one):
            yield f"{prefix}{name}", one


DOCUMENTED = dict(documented(dpstats))
CLASSES = {name: one for name, one in DOCUMENTED.items() if inspect.isclass(one)}

FOR_IMPLEMENTERS = {"Derivatives", "LossCurve", "Mechanism", "NoisePath", "Buffers", "Toeplitz", "Workload"}
"""What families and mechanisms of sums are made of: described by their contracts and tests."""

CONTRACT = {"check_ticks", "draw_covariance", "options", "path", "release_variances", "sum_covariance", "touched"}
"""What a mechanism of sums implements for its plan."""


def test_every_public_function_has_an_example() -> None:
    names = {*DOCUMENTED} - {name for name in CLASSES if "." in name}
    assert not [name for name in sorted(names) if ">>>" not in (DOCUMENTED[name].__doc__ or "")], "write one that runs"


def test_every_public_method_is_in_an_example() -> None:
    """In its own docstring, its class's, or that of a method that it belongs with, as load does with save."""
    missing = []
    for name, kind in CLASSES.items():
        if kind.__name__ in FOR_IMPLEMENTERS:
            continue
        shown = examples_of(kind)
        members = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
        methods = {name: one for name, one in members.items() if inspect.isroutine(one) and not _kept(one)}
        own = [name for name, one in methods.items() if one.__module__.partition(".")[0] == "dpstats"]
        missing += [] if shown else [name]
        missing += [f"{name}.{one}" for one in own if one not in CONTRACT and not re.search(rf"\b{one}\(", shown)]
    assert not missing, "write an example that runs"


def _kept(member: object) -> bool:
    """Whether it is an attribute that is computed once, which inspect takes for a method."""
    return isinstance(member, functools.cached_property)


def examples_of(kind: type) -> str:
    """All examples of a class, of its methods and of those it inherits."""
    members = [one for base in kind.__mro__[:-1] for name, one in vars(base).items() if not name.startswith("_")]
    texts = [one.__doc__ or "" for one in (*kind.__mro__[:-1], *members)]
    return "".join(line for text in texts for line in text.splitlines(True) if line.lstrip().startswith((">>>", "...")))


def public_names() -> list[str]:
    """Names that the reference must list: those of dpstats, and the classes of its public folders."""
    names = []
    for name in dpstats.__all__:
        value = getattr(dpstats, name)
        if not isinstance(value, ModuleType):
            names.append(name)
        elif value is dpstats.errors:
            names += [f"errors.{error}" for error, kind in vars(value).items() if isinstance(kind, type)]
        else:
            items = [item for item in value.__all__ if item not in dpstats.__all__]
            names += [f"{name}.{item}" for item in items if isinstance(getattr(value, item), type)]
    return names


def test_reference_lists_every_public_name() -> None:
    reference = (ROOT / "docs" / "api.md").read_text()
    missing = [name for name in public_names() if not re.search(rf"^   {re.escape(name)}$", reference, re.MULTILINE)]
    assert public_names()
    assert not missing, "add them to docs/api.md"


def test_every_option_is_on_the_page_of_options() -> None:
    page = (ROOT / "docs" / "guide" / "options.md").read_text()
    options = [field.name for field in fields(Options)]
    arguments = [name for name in inspect.signature(dpstats.glm).parameters if name != "options"]
    missing = [name for name in [*options, *arguments] if f"`{name}`" not in page]
    assert not missing, "add them to docs/guide/options.md"


def test_readme_leads_with_its_two_commands() -> None:
    first_block = re.search(r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert first_block is not None
    assert [line.split("#")[0].strip() for line in first_block[1].splitlines()] == ["make demo", "make test"]


def test_readme_shows_the_present_output(run_page: Callable[..., str]) -> None:
    """All but the figures, which the noise moves; ``python docs/executed.py README.md`` renews it.

    A right Domain has a note by chance in at most 3 of 100 fits, so that one of three runs must be as shown.
    """

    def without_figures(text: str) -> list[str]:
        return re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", "0", text).split()

    shown = (ROOT / "README.md").read_text()
    assert without_figures(shown) in (without_figures(run_page(shown, "README.md")) for _ in range(3))


def test_a_page_shows_what_it_prints_and_the_value_of_its_last_line(run_page: Callable[..., str]) -> None:
    page = "# T\n\n```python\nx = 2\nprint('seen')\nx + 1\n```\n\n```text\nstale\n```\n\nText.\n\n```python\nx\n```\n"
    shown = run_page(page, "page")
    assert "```text\nseen\n3\n```\n\nText." in shown
    assert "stale" not in shown
    assert shown.endswith("```text\n2\n```\n")


def test_links_to_vignettes_are_found_through_their_symbolic_link(linked: Callable[[str, str], str]) -> None:
    assert linked("[a](vignettes/b.md), [c](guide/d.md)", "risk") == "{doc}`a </vignettes/b>`, [c](guide/d.md)"
    assert linked("[a](../vignettes/b.md) [e](f.md)", "guide/x") == "{doc}`a </vignettes/b>` [e](f.md)"
    assert linked("[a](b.md) [c](../docs/d.md)", "vignettes/x") == "{doc}`a </vignettes/b>` [c](../docs/d.md)"


def test_a_failing_block_is_caught(run_page: Callable[..., str]) -> None:
    """Planted."""
    with pytest.raises(ZeroDivisionError):
        run_page("```python\n1 / 0\n```\n", "page")
    warnings.simplefilter("default")
    with pytest.raises(UserWarning, match="spoken"):
        run_page("```python\nimport warnings\n\nwarnings.warn('spoken')\n```\n", "page")
