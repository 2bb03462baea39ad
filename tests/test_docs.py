"""What the documentation says can be run, and what it points at exists."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import dpstats
from dpstats.request import Options

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


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [page for page in PAGES if "```python" in page.read_text()], ids=page_id)
def test_blocks_run(path: Path, run_page: Callable[..., str]) -> None:
    run_page(path.read_text(), page_id(path))


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text())
    missing = [target for target in targets if not (path.parent / target).exists()]
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


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    assert run_examples(importlib.import_module(name)) == 0


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
    module = ModuleType("planted")
    exec(PLANTED, vars(module))
    assert run_examples(module) == 1
    assert "Expected:\n    2\nGot:\n    1" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in dpstats.__all__ if callable(getattr(dpstats, name))])
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>>" in (getattr(dpstats, name).__doc__ or ""), "write an example that runs"


@pytest.mark.parametrize("folder", ["families", "penalties", "plots"])
def test_every_family_penalty_and_picture_has_an_example(folder: str) -> None:
    module = getattr(dpstats, folder)
    made = [name for name in module.__all__ if callable(getattr(module, name)) and not _is_frame(getattr(module, name))]
    assert made
    missing = [name for name in made if ">>>" not in (getattr(module, name).__doc__ or "")]
    assert not missing


def _is_frame(value: object) -> bool:
    """Whether it is a base class, or a part that only families and penalties themselves use."""
    return inspect.isabstract(value) or getattr(value, "__name__", "") in (
        "Derivatives",
        "LossCurve",
        "split_curvature",
    )


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


@pytest.mark.parametrize("name", public_names())
def test_reference_lists_every_public_name(name: str) -> None:
    reference = (ROOT / "docs" / "api.md").read_text()
    assert re.search(rf"^   {re.escape(name)}$", reference, re.MULTILINE), f"add {name} to docs/api.md"


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
    """All but the figures, which the noise moves; ``python docs/executed.py README.md`` renews it."""

    def without_figures(text: str) -> list[str]:
        return re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", "0", text).split()

    shown = (ROOT / "README.md").read_text()
    assert without_figures(run_page(shown, "README.md")) == without_figures(shown)


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
