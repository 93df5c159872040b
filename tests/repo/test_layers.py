"""Imports go one way: expr → encode → engines → matcher → spark, server, cli.

The layer joins is parallel to encode and engines: expr → joins → matcher.

The map below is the architecture. A module whose layer is missing from it fails the test until
the layer gets a place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tamis"

ROOT = "tamis"
"""The package itself: ``import tamis``, or a public name taken from it."""

BELOW_MATCHER = {"errors", "limits", "deadline", "forks", "expr", "encode", "engines", "joins"}
PUBLIC = BELOW_MATCHER | {"matcher"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "limits": set(),
    "deadline": {"errors"},
    "forks": set(),
    "expr": {"errors", "forks", "deadline"},
    "encode": {"errors", "forks", "deadline", "expr"},
    "engines": {"errors", "forks", "deadline", "expr", "encode"},
    # Documents are independent of rules, codes and engines.
    "joins": {"errors", "forks", "deadline", "expr"},
    "matcher": BELOW_MATCHER,
    "interrupts": set(),
    ROOT: PUBLIC | {"interrupts"},
    "workloads": {"errors", "expr"},
    "files": PUBLIC,
    "importers": PUBLIC | {"files"},
    # What people do with the results, and where they sit: frames, SQL, pipelines of estimators.
    "results": PUBLIC,
    "pandas": PUBLIC | {"results", ROOT},
    "polars": PUBLIC | {"results", ROOT},
    "duckdb": PUBLIC,
    "sklearn": PUBLIC | {"results", ROOT},
    "warmup": PUBLIC,
    "pytest_plugin": PUBLIC | {ROOT, "files"},
    "report": {"errors"},
    # Its sinks send messages as the server does, and to the server.
    "spark": PUBLIC | {ROOT, "client", "pubsub", "report", "workloads"},
    # Subscriptions and the log of events, on a matcher; the server speaks HTTP to it.
    "pubsub": PUBLIC,
    # What server and client send each other.
    "wire": PUBLIC,
    "server": PUBLIC | {ROOT, "files", "importers", "pubsub", "warmup", "wire"},
    "client": PUBLIC | {ROOT, "wire"},
    "demo": PUBLIC | {ROOT, "report", "spark"},
    # Events to try rules on; needs nothing.
    "samples": set(),
    # The command is the outermost layer and starts all others.
    "cli": PUBLIC
    | {
        ROOT,
        "client",
        "demo",
        "files",
        "importers",
        "interrupts",
        "pubsub",
        "server",
        "spark",
        "warmup",
        "workloads",
    },
    "__main__": {"cli"},
}
"""The layers that each layer may import, besides itself."""


def layer_of(module: str) -> str:
    """The layer of a dotted module name: the part after ``tamis``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def find_modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module under `source`, by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def find_imports(module: str, text: str, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of every Tamis module that `text` imports.

    Imports inside functions and under ``TYPE_CHECKING`` count too.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = _imported_names(node, module, is_package)
        elif isinstance(node, ast.Call):
            names = _dynamic_names(node)
        else:
            continue
        for name in names:
            if name == ROOT or name.startswith(f"{ROOT}."):
                yield node.lineno, name


def _imported_names(node: ast.ImportFrom, module: str, is_package: bool) -> list[str]:
    origin = node.module or ""
    if node.level:
        keep = len(module.split(".")) - node.level + is_package
        origin = ".".join([*module.split(".")[:keep], *filter(None, [origin])])
    if origin != ROOT:
        return [origin]
    # `from tamis import expr` imports a layer, `from tamis import Matcher` the package.
    return [f"{ROOT}.{alias.name}" if alias.name in MAY_IMPORT else ROOT for alias in node.names]


def _dynamic_names(node: ast.Call) -> list[str]:
    """The module that ``import_module("tamis.…")`` imports."""
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    if called not in {"import_module", "__import__"} or not node.args:
        return []
    name = node.args[0]
    return [name.value] if isinstance(name, ast.Constant) and isinstance(name.value, str) else []


def find_wrong_imports(module: str, text: str, is_package: bool = False) -> list[str]:
    """A message for every import in `text` that the map does not allow."""
    layer = layer_of(module)
    if layer not in MAY_IMPORT:
        return [f"{module}: the layer {layer!r} is missing from MAY_IMPORT"]
    allowed = MAY_IMPORT[layer] | {layer}
    return [
        f"{module}:{line}: {layer} must not import {name}"
        for line, name in find_imports(module, text, is_package)
        if layer_of(name) not in allowed
    ]


def test_imports_go_one_way() -> None:
    modules = find_modules()
    assert {"tamis.errors", "tamis.expr", "tamis.expr.model"} <= modules.keys()
    wrong = [
        message
        for module, path in modules.items()
        for message in find_wrong_imports(module, path.read_text(), path.name == "__init__.py")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_map_has_no_cycle() -> None:
    done: set[str] = set()
    while left := MAY_IMPORT.keys() - done:
        free = {layer for layer in left if MAY_IMPORT[layer] <= done}
        assert free, f"these layers import each other: {sorted(left)}"
        done |= free


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("tamis.expr.model", "import tamis.encode.rules"),
        ("tamis.expr.model", "from tamis.matcher import Matcher"),
        ("tamis.expr.model", "from tamis import engines"),
        ("tamis.expr.model", "from tamis import Matcher"),
        ("tamis.expr.model", "import numpy, tamis"),
        ("tamis.expr.model", "from ..encode import rules"),
        ("tamis.expr.model", "from .. import encode"),
        ("tamis.expr.model", "def late():\n    import tamis.engines.scan"),
        ("tamis.expr.model", "if TYPE_CHECKING:\n    from tamis.engines.base import Engine"),
        ("tamis.expr.model", "importlib.import_module('tamis.engines')"),
        ("tamis.encode.rules", "from tamis.engines.base import Engine"),
        ("tamis.engines.scan", "from tamis.matcher.matcher import Matcher"),
        ("tamis.matcher.matcher", "from tamis.cli import main"),
        ("tamis.joins.documents", "from tamis.matcher.matcher import Matcher"),
        ("tamis.joins.ordered_index", "from tamis.encode.dictionary import Axis"),
        ("tamis.workloads.betree", "from tamis.encode.rules import encode"),
        ("tamis.errors", "from tamis.expr.model import Expr"),
        ("tamis.spark.index.build", "from tamis.server.routes import app"),
        ("tamis", "from tamis.cli import main"),
        ("tamis.helpers", "x = 1"),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str) -> None:
    assert find_wrong_imports(module, text)


@pytest.mark.parametrize(
    ("module", "text", "is_package"),
    [
        (
            "tamis.expr.json",
            "from tamis.expr.model import And\nfrom tamis.errors import E",
            False,
        ),
        ("tamis.expr.json", "from .model import And\nfrom ..errors import E", False),
        ("tamis.expr", "from .model import And", True),
        ("tamis.engines.scan", "from tamis.encode.rules import RuleArrays", False),
        ("tamis", "from tamis.matcher.matcher import Matcher", True),
        ("tamis.cli", "import tamis\nfrom tamis import demo", False),
        ("tamis.workloads.betree", "import tamismatic\nfrom tamis import expr", False),
    ],
)
def test_an_allowed_import_passes(module: str, text: str, is_package: bool) -> None:
    assert not find_wrong_imports(module, text, is_package)
