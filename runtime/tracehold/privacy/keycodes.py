"""What the walk must do at a key, remembered per key: one dict look-up in the place of several questions."""

from __future__ import annotations

from typing import Final

from tracehold.privacy.keys import KeyRules, KeyVerdict
from tracehold.privacy.masking import TextMasker

PLAIN: Final = 0
SECRET: Final = 1
JUDGE_VALUE: Final = 2
RENAME: Final = 3
PAIR: Final = 4
STRUCTURAL: Final = 5
ACCOUNTING: Final = 6

ACCOUNTING_FIELDS: Final = frozenset({"usage", "cost", "cost_usd", "budget"})
"""Top-level fields of an event whose numbers are never rewritten (DEC-09)."""

_MAX: Final = 4096
_KEY_MAX: Final = 128


class KeyCodes(dict[str, int]):
    """A bounded memory of key codes. Only keys that stay as they are get remembered: it must not keep a secret alive.

    Args:
        rules: says which keys name a secret.
        masker: says which keys hold one.
        redact: without it every key is plain.
        structural: the structural fields of an event; given, the codes are those of an event's top level.
    """

    __slots__ = ("_masker", "_redact", "_rules", "_structural")

    def __init__(
        self, rules: KeyRules, masker: TextMasker, *, redact: bool, structural: frozenset[str] | None = None
    ) -> None:
        super().__init__()
        self._rules = rules
        self._masker = masker
        self._redact = redact
        self._structural = structural

    def __missing__(self, key: str) -> int:
        """Judge a key that `codes[key]` did not find: a subscript is the cheapest look-up there is."""
        code = self._judge(key)
        if code != RENAME and len(key) <= _KEY_MAX:
            if len(self) >= _MAX:
                self.clear()
            self[key] = code
        return code

    def _judge(self, key: str) -> int:
        if self._structural is not None and key in self._structural:
            return STRUCTURAL
        if self._structural is not None and key in ACCOUNTING_FIELDS:
            return ACCOUNTING
        if not self._redact:
            return PLAIN
        if self._masker(key) is not key:
            return RENAME
        verdict = self._rules.verdict(key)
        if verdict is KeyVerdict.PLAIN:
            return PAIR if key == "value" else PLAIN
        return SECRET if verdict is KeyVerdict.SECRET else JUDGE_VALUE
