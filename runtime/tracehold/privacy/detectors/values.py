"""Judging the value that stands behind a name: a real secret, or a placeholder, a type, a reference in code?"""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.keys import KeyRules, KeyVerdict
from tracehold.privacy.vocabulary import words

_RULES: Final = KeyRules()

_PLACEHOLDER: Final = re.compile(
    r"[*•xX.#_-]+|\$|%(?:\(\w{1,64}\)|\w{1,64}%\Z|[sdr]\Z)|\{|<[^>\s]{0,64}>?$|\[(?:REDACTED|redacted|MASKED|FILTERED)"
    r"|(?:os\.|process\.|env\.|ENV\[|env\[|getenv|System\.|config\.|settings\.|self\.|args\.|secrets\.|vault:|ssm:|arn:|file:|var\.)"
)
_FULL: Final = re.compile(r"[*•xX.#_-]+")
_WORDS: Final = words(
    "none null nil undefined true false str string int integer bool boolean float number bytes any object secretstr"
    " optional char varchar text required redacted masked hidden changeme placeholder empty unset default missing"
    " invalid valid expired wrong incorrect must should is are was not cannot may can will the a an and or for in of to"
    " that this your you we if when from with has have needs"
)
_REFERENCE: Final = re.compile(r"[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_]+)+\Z")


def names_secret(name: str) -> bool:
    """Return whether a name found in text says that its value is a secret."""
    return _RULES.is_secret(name)


def verdict_on(name: str) -> KeyVerdict:
    """Return what the built-in key rules say about a name found in text."""
    return _RULES.verdict(name)


def is_placeholder(value: str) -> bool:
    """Return whether `value` stands for a secret without being one: a mask, a variable, a type, a word of prose."""
    match = _PLACEHOLDER.match(value)
    if match is not None:
        return _FULL.match(value) is None or _FULL.fullmatch(value) is not None
    return value.rstrip(".,:;!?)").lower() in _WORDS


def is_code_reference(value: str) -> bool:
    """Return whether an unquoted value is a name in a program (`config.password`, `db_password`)."""
    return _REFERENCE.match(value) is not None or (value.replace("_", "").isalpha() and names_secret(value))
