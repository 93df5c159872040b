"""Put a bill of materials into a wheel: which packages Tamis runs with, as CycloneDX.

The versions are those of `requirements.lock`, with which Tamis is tested: what Tamis itself needs
is required, what only an extra needs is optional, and the tools of developers are left out. The
file is ``tamis-*.dist-info/sboms/tamis.cdx.json``, as in PEP 770. `make wheel` calls this.

Usage: python scripts/bill_of_materials.py WHEEL
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
NAME: Final = "sboms/tamis.cdx.json"

_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
_NEEDED_BY: Final = re.compile(r"^    #(?: via|  ) +([A-Za-z0-9._-]+)", re.MULTILINE)


class Package(NamedTuple):
    """A line of the lock."""

    name: str
    version: str
    needed_by: frozenset[str]
    """The packages that need it."""


def read_lock(text: str) -> dict[str, Package]:
    """The packages of a lock, by name."""
    starts = list(_PINNED.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    found = {}
    for start, end in zip(starts, ends, strict=True):
        name = _normalize(start[1])
        needed_by = frozenset(map(_normalize, _NEEDED_BY.findall(text[start.start() : end])))
        found[name] = Package(name, start[2], needed_by)
    return found


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_name(requirement: str) -> str:
    return _normalize(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0])


def find_scopes(project: dict[str, Any], lock: dict[str, Package]) -> dict[str, str]:
    """The packages that users of Tamis run with: "required", or "optional" if an extra needs it."""
    extras = project["optional-dependencies"]
    optional = [r for extra, listed in extras.items() if extra != "dev" for r in listed]
    scopes: dict[str, str] = {}
    for scope, requirements in (("required", project["dependencies"]), ("optional", optional)):
        waiting = [_read_name(requirement) for requirement in requirements]
        while waiting:
            name = waiting.pop()
            if name in lock and name not in scopes:
                scopes[name] = scope
                waiting += [other.name for other in lock.values() if name in other.needed_by]
    return scopes


def make_bill(project: dict[str, Any], version: str, lock: dict[str, Package]) -> dict[str, Any]:
    """The bill of materials. The same lock gives the same bill."""
    scopes = find_scopes(project, lock)
    locked = {name: _reference(name, lock[name].version) for name in sorted(scopes)}
    own = _reference("tamis", version)
    direct = {_read_name(requirement) for requirement in project["dependencies"]}
    dependencies = [{"ref": own, "dependsOn": [locked[n] for n in sorted(direct) if n in locked]}]
    for name, reference in locked.items():
        needs = [locked[other] for other in locked if name in lock[other].needed_by]
        dependencies.append({"ref": reference, "dependsOn": needs})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _describe("tamis", version)},
        "components": [
            {**_describe(name, lock[name].version), "scope": scopes[name]} for name in locked
        ],
        "dependencies": dependencies,
    }


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _describe(name: str, version: str) -> dict[str, str]:
    reference = _reference(name, version)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
    }


def add_to_wheel(wheel: Path, bill: dict[str, Any]) -> None:
    """Put a bill into a wheel and its RECORD; the wheel is replaced once it is complete."""
    content = (json.dumps(bill, indent=1) + "\n").encode()
    unfinished = wheel.with_name(wheel.name + ".aside")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(unfinished, "w") as new:
        (record,) = [name for name in old.namelist() if name.endswith(".dist-info/RECORD")]
        path = record.removesuffix("RECORD") + NAME
        for info in old.infolist():
            if info.filename not in (record, path):
                new.writestr(info, old.read(info), zipfile.ZIP_DEFLATED)
        new.writestr(path, content, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines = old.read(record).decode().splitlines()
        kept = [line for line in lines if not line.startswith(f"{path},")]
        kept.insert(-1, f"{path},sha256={digest},{len(content)}")
        new.writestr(record, "\n".join(kept) + "\n", zipfile.ZIP_DEFLATED)
    unfinished.replace(wheel)


def main() -> None:
    """Put the bill into the wheel that the command line names."""
    wheel = Path(sys.argv[1])
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    lock = read_lock((ROOT / "requirements.lock").read_text("utf-8"))
    version = wheel.name.split("-")[1]
    bill = make_bill(project, version, lock)
    add_to_wheel(wheel, bill)
    print(f"{wheel.name}: a bill of {len(bill['components'])} packages")


if __name__ == "__main__":
    main()
