"""Compare the locked packages with the advisories that the package index knows: ``make audit``.

pip-audit asks the index, from an environment of its own. A package that the index gives no data
about counts as not audited, which is an error: silence must not look like safety.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = ("requirements.lock", "requirements-build.lock")
PIP_AUDIT: Final = "pip-audit>=2.9,<3"

ACCEPTED: Final = {
    "CVE-2025-69872": (
        "diskcache unpickles what is in its folder; pySigma brings it, for a cache that Tamis "
        "does not use. See SECURITY.md"
    ),
}
"""Advisories that are known and do not concern Tamis, with the reason."""


def main() -> None:
    """Audit every lock; exits with 1 if there is an advisory, or no data."""
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", PIP_AUDIT]
        if subprocess.run(install, check=False).returncode:
            sys.exit("audit: pip-audit cannot be installed from this package index")
        found = [package for lock in LOCKS for package in audit(python, ROOT / lock)]
    lines, is_clean = judge(found)
    print("\n".join(lines))
    sys.exit(not is_clean)


def audit(python: str, lock: Path) -> list[dict[str, Any]]:
    """The packages of a lock, each with its advisories or the reason why there is no data."""
    command = [python, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--no-deps", "--disable-pip", "--requirement", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        sys.exit(f"audit: {lock.name} was not audited: {reason}")
    return packages


def judge(packages: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """What to print about audited packages, and whether all is well."""
    lines, unknown, advisories = [], [], 0
    for package in packages:
        if "skip_reason" in package:
            unknown.append(package["name"])
            continue
        for advisory in package["vulns"]:
            names = {advisory["id"], *advisory.get("aliases", ())}
            reason = next((ACCEPTED[name] for name in names if name in ACCEPTED), None)
            what = f"{package['name']} {package['version']}: {' '.join(sorted(names))}"
            lines.append(f"accepted: {what}: {reason}" if reason else f"ADVISORY: {what}")
            advisories += reason is None
    lines.append(f"{len(packages) - len(unknown)} of {len(packages)} packages were audited")
    if unknown:
        lines.append(
            "this package index has no data on advisories for "
            f"{', '.join(unknown[:5])}{' and others' if len(unknown) > 5 else ''}: "
            "run `make audit` where the public index can be reached"
        )
    return lines, not advisories and not unknown


if __name__ == "__main__":
    main()
