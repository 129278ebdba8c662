"""Private keys, and the public material that only looks like one."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where

_PRIVATE: Final = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

KEYS: Final = (
    Detector(
        name="private_key",
        # Without an END line the rest of the text is key material; one match then covers all of it, so many BEGIN
        # lines stay linear (FR-41).
        pattern=re.compile(rf"-----BEGIN {_PRIVATE}(?s:.)*?(?:-----END {_PRIVATE}|\Z)"),
        hints=("-----begin ",),
        requires=("-",),
        where=Where.AT_HINT,
    ),
    Detector(
        name="private_key",
        pattern=re.compile(r"Private-Lines: \d{1,3}(?s:.)*?(?:Private-MAC: [0-9a-f]{40,64}|\Z)"),  # PuTTY
        hints=("private-lines: ",),
        requires=("-",),
        where=Where.AT_HINT,
    ),
)

PUBLIC_MATERIAL: Final = (
    Detector(
        name="public",
        pattern=re.compile(
            r"-----BEGIN (?:(?:[A-Z0-9]{1,20} ){0,3}(?:CERTIFICATE|PUBLIC KEY"
            r"|CERTIFICATE REQUEST|CRL|MESSAGE|SIGNATURE|PUBLIC KEY BLOCK|PARAMETERS))-----(?s:.)*?(?:-----END |\Z)"
        ),
        hints=("-----begin ",),
        where=Where.AT_HINT,
    ),
    Detector(
        name="public",
        pattern=re.compile(r";base64,(?:[A-Za-z0-9+/_=-]|\\n|%2[BbFf]|%3[Dd])*+"),  # RFC 2397
        hints=(";base64,",),
        requires=(";",),
        where=Where.AT_HINT,
    ),
    Detector(
        name="public",
        # The first bytes of an OpenSSH public key: a length and the name of its algorithm.
        pattern=re.compile(r"AAAA(?:B3NzaC1|C3NzaC1|E2VjZHNh|I(?:Hn|nN)z|G(?:n|N)[rz])[A-Za-z0-9+/=]{20,}+"),
        hints=("aaaa",),
        where=Where.AT_HINT,
    ),
    Detector(
        name="public",
        # The first bytes of PNG, JPEG, GIF, PDF, ZIP, WebP or WAV, MP3, Ogg in base64: an attachment (RED-20).
        pattern=re.compile(
            r"(?:iVBORw0KGgo|/9j/|R0lGOD|JVBERi0|UEsDB|UklGR|SUQz|T2dnUw|AAAA[A-Z])(?:[A-Za-z0-9+/_=-]|\\n|\s)*+"
        ),
        hints=("ivborw0kggo", "/9j/", "r0lgod", "jvberi0", "uesdb", "uklgr", "suqz", "t2dnuw"),
        requires=("/", "+"),
        where=Where.AT_HINT,
    ),
    Detector(
        name="public",
        # Subresource Integrity and lock files.
        pattern=re.compile(r"sha(?:1|256|384|512)[-:=][A-Za-z0-9+/_-]{27,130}+={0,2}"),
        hints=("sha",),
        where=Where.AT_HINT,
    ),
)
