"""Imports point downward only, and no two modules import each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LAYERS = (
    "_version",
    "errors",
    "wording",
    "arguments",
    "proof_pages",
    "quiet",
    "progress",
    "cached",
    "writing",
    "frames",
    "summaries",
    "domain",
    "data",
    "families",
    "penalties",
    "privacy",
    "ledger",
    "inference",
    "formula",
    "solvers",
    "mechanisms",
    "replication",
    "risk",
    "call",
    "plan",
    "plots",
    "results",
    "models",
    "streaming",
    "local",
    "evaluation",
    "tuning",
    "audit",
    "datasets",
    "api",
    "",  # dpstats/__init__.py: the public names
    "office",
    "cli",
    "__main__",
)
"""Files and folders of dpstats, lowest first; each may import what stands before it, and itself."""


def module_name(path: Path) -> str:
    """``dpstats.privacy.noise`` for its file, ``dpstats.privacy`` for the folder's ``__init__.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((ROOT / "dpstats").rglob("*.py"))}


def layer_of(module: str) -> int:
    """Position in LAYERS of the file or folder directly below dpstats that holds the module."""
    top = module.split(".")[1] if "." in module else ""
    assert top in LAYERS, f"say in tests/test_layers.py and CONTRIBUTING.md where dpstats/{top} stands"
    return LAYERS.index(top)


def imported(source: str, *, with_types: bool) -> Iterator[str]:
    """Modules of dpstats that the source imports; type-checking-only ones too if `with_types`."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") and not with_types:
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "dpstats")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import by absolute name"
            if node.module and node.module.split(".")[0] == "dpstats":
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from (name if name in MODULES else node.module for name in names)
        pending.extend(ast.iter_child_nodes(node))


def upward(module: str, source: str) -> list[str]:
    """Imports of the module that do not point downward."""
    own = layer_of(module)
    return [name for name in imported(source, with_types=True) if layer_of(name) > own]


@pytest.mark.slow
def test_imports_point_downward() -> None:
    wrong = {module: upward(module, path.read_text()) for module, path in MODULES.items()}
    assert not {module: names for module, names in wrong.items() if names}


@pytest.mark.slow
def test_no_import_cycle() -> None:
    graph = {module: set(imported(path.read_text(), with_types=False)) - {module} for module, path in MODULES.items()}
    # A submodule may be imported while its own package initialises; that is no cycle of ours.
    for module, names in graph.items():
        graph[module] = {name for name in names if not module.startswith(f"{name}.")}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))


def test_an_upward_import_is_caught() -> None:
    """Planted, in each form of the statement."""
    assert upward("dpstats.privacy.noise", "from dpstats.mechanisms.objective import plan_objective")
    assert upward("dpstats.domain", "def f():\n    import dpstats.api")
    assert upward("dpstats.errors", "from dpstats import domain")
    assert upward("dpstats.families.base", "if TYPE_CHECKING:\n    from dpstats.plan import Plan")
    assert not upward("dpstats.plan", "import numpy\nfrom dpstats.errors import DPStatsError")
