"""An estimate of how many tokens a text takes, without a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

TokenCounter: TypeAlias = Callable[[str], int]

_DENSE: Final = re.compile("[぀-ヿ㐀-䶿一-鿿가-힣豈-﫿]")
"""Kana, CJK ideographs with extension A and compatibility forms, hangul syllables."""

_SPARSE_PER_TOKEN: Final = 4


def count_tokens(text: str) -> int:
    """Estimate tokens: one per CJK, kana or hangul character, a quarter per other character, rounded up (CTX-19)."""
    dense = len(_DENSE.findall(text))
    return dense + -(-(len(text) - dense) // _SPARSE_PER_TOKEN)
