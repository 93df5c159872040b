"""The wheel of this platform: installed anywhere, it answers without compiling."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cli.test_warmup import USES
from tests.encode.compiler.test_background import ANSWERS

ROOT = Path(__file__).resolve().parents[2]

CPU = "NUMBA_CPU_"
"""How the settings begin by which ``make test`` has kernels compiled for the CPU of a wheel."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sysconfig.get_platform() != "linux-x86_64", reason="kernels are shipped for this platform"
    ),
]


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env={**{k: v for k, v in os.environ.items() if not k.startswith(CPU)}, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds nothing but the wheel; dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, ROOT / "scripts" / "build_wheel.py", folder / "dist")
    (wheel,) = (folder / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env")
    pip = ("-m", "pip", "--python", folder / "env", "--disable-pip-version-check")
    run(sys.executable, *pip, "install", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "env"


def answer(environment: Path, cache: Path, script: str = "", **settings: str) -> str:
    """How many kernels were compiled to answer, and what the script prints."""
    settings = {"TAMIS_KERNELS": "wait", "TAMIS_KERNEL_CACHE": str(cache), **settings}
    python = environment / "bin" / "python"
    return run(python, "-I", "-c", f"{ANSWERS}\n{script}", **settings, PYTHONPATH="")


def stop_compiling(cache: Path) -> None:
    """Stop a process that compiles in the background: nobody finds what it would write."""
    shutil.rmtree(cache, ignore_errors=True)


def test_nothing_is_compiled(environment: Path, tmp_path: Path) -> None:
    place = "print(tamis.__file__)"
    compiled, file = answer(environment, tmp_path / "cache", place).splitlines()
    assert compiled == "0"
    assert Path(file).is_relative_to(environment)
    assert not list((tmp_path / "cache").glob("*.kernel"))


def test_no_use_of_the_default_engine_compiles(environment: Path, tmp_path: Path) -> None:
    settings = {"TAMIS_KERNELS": "wait", "TAMIS_KERNEL_CACHE": str(tmp_path / "cache")}
    script = USES.replace("tamis.engines()", "['tiles']").replace("index-", f"{tmp_path}/index-")
    python = environment / "bin" / "python"
    assert run(python, "-I", "-c", script, **settings, PYTHONPATH="") == "0"


def test_nothing_is_compiled_where_nothing_can_be_written(environment: Path) -> None:
    """As in a container with a read-only file system and a user without a home."""
    read_only = "/proc/nowhere"
    nowhere = {"HOME": read_only, "XDG_CACHE_HOME": read_only, "TMPDIR": read_only}
    settings = {"TAMIS_KERNEL_CACHE": read_only, **nowhere}
    python = environment / "bin" / "python"
    assert run(python, "-I", "-c", ANSWERS, **settings, TAMIS_KERNELS="wait") == "0"


def test_answers_are_right_where_the_kernels_do_not_fit(environment: Path, tmp_path: Path) -> None:
    (shipped,) = environment.glob("lib/python*/site-packages/tamis/encode/compiler/shipped")
    target = shipped / "target.json"
    triple, cpu, features = json.loads(target.read_text())
    other = [triple, cpu, features + ",+a feature that no CPU has"]
    try:
        target.write_text(json.dumps(other))
        cache = tmp_path / "cache"
        assert answer(environment, cache, TAMIS_KERNELS="plain") == "0"
        assert answer(environment, cache, TAMIS_KERNELS="background") == "0"
    finally:
        stop_compiling(cache)
        target.write_text(json.dumps([triple, cpu, features]))


def test_answers_are_right_where_the_stamps_are_wrong(environment: Path, tmp_path: Path) -> None:
    """As after a change of the installed sources: kernels of the old ones are left alone."""
    (file,) = environment.glob("lib/python*/site-packages/tamis/engines/tiles/match.py")
    source = file.read_text()
    changed = source.replace("_ENTRY_WORDS = 9", "_ENTRY_WORDS = 8")
    assert changed != source
    loaded = (
        "from tamis.engines.tiles.match import match_event\n"
        "print(sum(match_event.stats.cache_hits.values()))"
    )
    cache = tmp_path / "cache"
    assert answer(environment, cache, loaded, TAMIS_KERNELS="background").splitlines() == ["0", "1"]
    try:
        file.write_text(changed)
        compiled, found = answer(
            environment, cache, loaded, TAMIS_KERNELS="background"
        ).splitlines()
        assert (compiled, found) == ("0", "0")
    finally:
        stop_compiling(cache)
        file.write_text(source)


def test_the_wheel_has_a_bill_of_materials(environment: Path) -> None:
    (bill,) = environment.glob("lib/python*/site-packages/tamis-*.dist-info/sboms/tamis.cdx.json")
    names = [component["name"] for component in json.loads(bill.read_text())["components"]]
    assert "numpy" in names
    assert "pytest" not in names
