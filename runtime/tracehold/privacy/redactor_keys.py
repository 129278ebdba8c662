"""What the name of a field means to the redactors: a secret, an identifier, a place that is never rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from tracehold.core.errors import ConfigurationError
from tracehold.privacy.keys import KeyRules, KeyVerdict
from tracehold.privacy.randomness import is_hex_identifier, looks_generated
from tracehold.privacy.redactor_patterns import DEFAULT_PATTERNS
from tracehold.privacy.redactor_text import TextRules
from tracehold.privacy.vocabulary import words

SECRET_KEYS: Final = words(
    "password passwd secret clientsecret apikey xapikey accesstoken refreshtoken idtoken authtoken token authorization"
    " proxyauthorization cookie setcookie privatekey sessionid otp pin"
)
"""Names of secrets, without case and punctuation (RED-12). As a whole set they stand for the rules of the Tracer."""

PROTECTED_KEYS: Final = words(
    "call_id child_run_id user agent parent run_tag tag algo kind name model attempt fence idempotency_key"
)
"""Routing fields: never rewritten at the top level of an event's `data` and `meta` (RED-17, DEC-09)."""

NESTED_PROTECTED_KEYS: Final = words("role tool_call_id usage cost budget")
"""At the top level, roles and ids stay, and so do the numbers in an event's own accounts (RED-17, DEC-09)."""

ACCOUNTS: Final = frozenset({"usage", "cost", "budget"})
ROUTES: Final = (
    PROTECTED_KEYS
    | (NESTED_PROTECTED_KEYS - ACCOUNTS)
    | words("run_id parent_run_id trace_id span_id parent_span_id tool")
)
"""Fields of an event's top level that say where it belongs (RED-17, DEC-10)."""
IDENTIFIERS: Final = words(
    "id event_id run_id parent_run_id child_run_id call_id tool_call_id trace_id span_id parent_span_id step_id"
    " session_id state_id role model tool"
)
"""Identifiers wherever they stand: what only looks generated is no secret there (DEC-10)."""

_MEDIA_BODIES: Final = frozenset({"data", "blob"})
_DROPPED: Final = re.compile(r"[\W_]+")
_MASK: Final = re.compile(r"\[REDACTED[^\[\]]{0,66}\](?:#\d{1,9}\Z)?")
_MASK_START: Final = "[REDACTED"
_REMEMBERED_MAX: Final = 4096
_KEY_MAX: Final = 128

PLAIN: Final = 0
SECRET: Final = 1
WEAK: Final = 2
RENAME: Final = 3
PAIR: Final = 4
BODY: Final = 5
IDENTIFIER: Final = 6
ROUTING: Final = 7
ACCOUNT: Final = 8


def folded(name: str) -> str:
    """Return a name without case and punctuation (RED-11)."""
    return _DROPPED.sub("", name.casefold())


@cache
def _default_rules() -> TextRules:
    return TextRules(DEFAULT_PATTERNS)


class SecretKeys:
    """Says which names are those of secrets.

    Args:
        keys: names of secrets, matched as a whole without case and punctuation (RED-11). Where all of `SECRET_KEYS`
            are among them, those are matched by their words, as the Tracer does: `githubToken` and `db_password` go,
            `secretary` and `session_id` stay (DEC-09).

    Raises:
        ConfigurationError: a name has neither letters nor digits, so that it would match nothing.
    """

    __slots__ = ("_own", "_rules", "_undo")

    def __init__(self, keys: Iterable[str]) -> None:
        given = (keys,) if isinstance(keys, str) else tuple(keys)
        names = set()
        for position, key in enumerate(given):
            name = folded(key)
            if not name:
                raise ConfigurationError(f"keys[{position}] has no letter or digit; remove it or name a key")
            names.add(name)
        built_in = names >= SECRET_KEYS
        self._rules = KeyRules() if built_in else None
        self._own = frozenset(names - SECRET_KEYS if built_in else names)
        self._undo = _default_rules().mask_key

    def verdict(self, key: str) -> KeyVerdict:
        """Return what a name says. It is judged both as it is and as the default patterns leave it.

        A secret in a name is masked, and what the name then says must be what it said before (RED-01).
        """
        verdict = self._verdict(key)
        if verdict is not KeyVerdict.SECRET and (masked := self._undo(key)) is not key:
            return self._verdict(masked) or verdict
        return verdict

    def _verdict(self, key: str) -> KeyVerdict:
        if _MASK_START in key:
            key = _MASK.sub(" ", key)
        if self._own and folded(key) in self._own:
            return KeyVerdict.SECRET
        return self._rules.verdict(key) if self._rules is not None else KeyVerdict.PLAIN

    def hides(self, key: str, value: Any) -> bool:
        """Return whether `value` under `key` is to be replaced (RED-10, RED-13, DEC-09).

        `None` and booleans tell whether something is set, and stay. So does, under `auth` and `pwd`, the name of a
        scheme and a path. A bare `key` names a secret only where the value looks like one: in an engine's log it
        is the key of a map more often.
        """
        verdict = self.verdict(key)
        if verdict is KeyVerdict.PLAIN or value is None or value is True or value is False:
            return False
        if verdict is KeyVerdict.SECRET:
            return True
        if not isinstance(value, str):
            return verdict is not KeyVerdict.WEAK_KEY
        if value.startswith(_MASK_START):
            return False
        if verdict is KeyVerdict.WEAK_KEY:
            return looks_generated(value) and not is_hex_identifier(value)
        return self._rules is not None and self._rules.holds_secret(key, value)


class KeyCodes(dict[str, int]):
    """What the walk does at a key, remembered. Only keys that stay as they are: no secret is kept alive.

    Args:
        keys: says which keys name a secret; without it none does.
        texts: says which keys hold one; without it none does.
        top: the codes are those of the top level of an event's `data` or `meta`.
    """

    __slots__ = ("_keys", "_texts", "_top")

    def __init__(self, keys: SecretKeys | None, texts: TextRules | None, *, top: bool) -> None:
        super().__init__()
        self._keys = keys
        self._texts = texts
        self._top = top

    def __missing__(self, key: str) -> int:
        code = self._judge(key)
        if code != RENAME and len(key) <= _KEY_MAX:
            if len(self) >= _REMEMBERED_MAX:
                self.clear()
            self[key] = code
        return code

    def _judge(self, key: str) -> int:
        if self._top and key in ACCOUNTS:
            return ACCOUNT
        if self._top and key in ROUTES:
            return ROUTING
        if self._texts is not None and self._texts.mask_key(key) is not key:
            return RENAME
        verdict = KeyVerdict.PLAIN if self._keys is None else self._keys.verdict(key)
        if verdict is not KeyVerdict.PLAIN:
            return SECRET if verdict is KeyVerdict.SECRET else WEAK
        if self._texts is not None and key in IDENTIFIERS:
            return IDENTIFIER
        if self._texts is not None and key in _MEDIA_BODIES:
            return BODY
        return PAIR if self._keys is not None and key == "value" else PLAIN
