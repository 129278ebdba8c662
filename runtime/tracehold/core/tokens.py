"""An estimate of how many tokens a text takes, without a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

TokenCounter: TypeAlias = Callable[[str], int]

# Written as escapes: some of these characters turn into others when an editor normalises the file.
_DENSE: Final = re.compile(
    "["
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3\uffa0-\uffdc"  # hangul: letters, syllables, half width
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana, also half width
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # CJK ideographs with extensions
    "]"
)

_SPARSE_PER_TOKEN: Final = 4


def count_tokens(text: str) -> int:
    """Estimate tokens: one per CJK, kana or hangul character, a quarter per other character, rounded up (CTX-19)."""
    dense = len(_DENSE.findall(text))
    return dense + -(-(len(text) - dense) // _SPARSE_PER_TOKEN)
