"""What the stamp of a kernel depends on, whatever the version of Python makes of its code."""

from __future__ import annotations

from typing import Any

from tamis.encode.compiler.stamp import stamp
from tamis.encode.kernel import kernel


def stamp_of(text: str) -> str:
    """The stamp of the kernel that a text defines."""
    names: dict[str, Any] = {"kernel": kernel}
    exec(text, names)
    return stamp(names["example"])


def test_stamp_depends_on_a_text_that_a_kernel_begins_with() -> None:
    """From Python 3.14 on, the constants of a function without a docstring begin with its own."""
    first = stamp_of("@kernel\ndef example(a):\n    return a == 'one'")
    assert stamp_of("@kernel\ndef example(a):\n    return a == 'two'") != first


def test_stamp_ignores_a_docstring() -> None:
    first = stamp_of("@kernel\ndef example(a):\n    'One.'\n    return a")
    assert stamp_of("@kernel\ndef example(a):\n    'Two.'\n    return a") == first


def test_stamp_depends_on_a_slice() -> None:
    """From Python 3.14 on, a slice of constants is a constant of the function."""
    first = stamp_of("@kernel\ndef example(a):\n    return a[1:]")
    assert stamp_of("@kernel\ndef example(a):\n    return a[2:]") != first
