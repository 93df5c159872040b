"""What literals and names look like: the regular expressions that readers of texts are built from.

Each takes time in proportion to the text, also where it does not match. None needs possessive
quantifiers or atomic groups, which Python 3.11 to 3.11.4 gets wrong around alternatives and
optional groups: a look-ahead after a string and after a word does their work.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EXPONENT", "NUMERAL", "STRING", "WORD"]

EXPONENT: Final = r"[eE][+-]?[0-9]+"

NUMERAL: Final = rf"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:{EXPONENT})?"
"""A number without its sign. A reader may take less than that, and never more."""

STRING: Final = r"'[^']*(?:''[^']*)*'(?!')"
"""A string; a doubled quote stands for one."""

WORD: Final = r"[A-Za-z_]\w*(?!\w)"
"""A name without quotes; for patterns with `re.ASCII`."""
