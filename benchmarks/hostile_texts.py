"""Ten texts on which a careless pattern backtracks or rescans. Only the standard library: other interpreters run this."""

from __future__ import annotations

import random
import string

SIZE = 65_536
_BASE64 = string.ascii_letters + string.digits + "+/"


def hostile_texts(size: int = SIZE, seed: int = 5) -> dict[str, str]:
    """What the text consists of, to a text of `size` characters."""
    draw = random.Random(seed)
    lines = "\n".join("".join(draw.choices(_BASE64, k=76)) for _ in range(size // 77 + 1))
    return {
        "letters and digits": "".join(draw.choices(string.ascii_letters + string.digits, k=size)),
        "base64 in lines": lines[:size],
        "digits": "".join(draw.choices(string.digits, k=size)),
        "digits, spaced": _repeated("1 ", size),
        "dots before an at-sign": _repeated("a.", size - 1) + "@",
        "dots after an at-sign": "a@" + _repeated("b-c.", size - 3) + "_",
        "spaces after a key": "password" + " " * (size - 9) + "x",
        "heads of tokens": _repeated("eyJ", size),
        "heads of addresses": _repeated("http://a:", size),
        "heads of private keys": _repeated("-----BEGIN ", size),
    }


def _repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]
