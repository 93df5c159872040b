"""Eligibility with explanations: which packages a machine can install, and what others lack.

    python examples/installable.py [MACHINE]

A package's dependencies are a rule over the list of installed packages: `git | subversion, perl`
becomes `installed IN ('git', 'subversion') AND installed = 'perl'`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tamis

DATA = Path(__file__).parent / "data"


def to_rule(package: dict[str, str]) -> tamis.Expr:
    """The condition under which a package can be installed."""
    needed = [
        tamis.Predicate("installed", tamis.Op.IN, tuple(name.strip() for name in part.split("|")))
        for part in package.get("depends", "").split(",")
        if part.strip()
    ]
    excluded = [
        tamis.Predicate("installed", tamis.Op.EQ, (name.strip(),), negated=True)
        for name in package.get("conflicts", "").split(",")
        if name.strip()
    ]
    return tamis.all_of(*needed, *excluded)


def main(machine: str = "web server") -> None:
    """Compare the packages with one machine, and explain."""
    data: dict[str, Any] = json.loads((DATA / "debian_packages.json").read_text())
    matcher = tamis.Matcher(logic="weak")
    matcher.add_many({name: to_rule(package) for name, package in data["packages"].items()})

    event = {"installed": data["machines"][machine]}
    ready = matcher.match(event)
    print(f"on the {machine}, {len(ready)} of {len(matcher)} packages could be installed at once:")
    print(" ", ", ".join(map(str, ready)))

    lacking = {
        name: [obstacle.text for obstacle in matcher.why_not(name, event).changes or ()]
        for name in matcher
        if name not in ready
    }
    print("the five nearest of the others, and what they lack:")
    for name in sorted(lacking, key=lambda name: (len(lacking[name]), str(name)))[:5]:
        print(f"  {name}: {'; '.join(lacking[name])}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
