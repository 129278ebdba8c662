"""Keys and tokens that their issuer made recognisable, by a prefix or a fixed form (RED-07)."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.randomness import looks_generated

_T: Final = "[A-Za-z0-9_-]"
_P: Final = "[_-][A-Za-z0-9_-]{20,255}+"

# One row an issuer. Tried at the start of each run of 16 or more token characters, and nowhere else.
_PREFIXED: Final = (
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA|AGPA|ANPA|ANVA)[A-Z2-7]{16}(?![A-Za-z0-9])",  # AWS unique ids
    r"gh[pousr]_[A-Za-z0-9]{20,255}+",
    r"github_pat_[A-Za-z0-9_]{22,255}+",
    rf"gl(?:pat|ptt|dt|rt|cbt|ft|soat|imt|agent|oas)-{_T}{{16,255}}+",
    rf"xox[abeoprs]-{_T}{{10,255}}+",
    rf"xapp-{_T}{{10,255}}+",
    rf"AIza{_T}{{30,60}}+",
    rf"GOCSPX-{_T}{{20,60}}+",
    rf"(?<=ya29\.){_T}{{20,2048}}+",
    r"do[opr]_v1_[a-f0-9]{64}",
    r"dapi[a-f0-9]{32}(?:-\d)?",
    r"(?:hf|api_org)_[A-Za-z0-9]{30,60}+",
    r"gsk_[A-Za-z0-9]{30,100}+",
    r"xai-[A-Za-z0-9]{30,120}+",
    r"pplx-[A-Za-z0-9]{30,80}+",
    r"r8_[A-Za-z0-9]{30,60}+",
    r"nvapi-[A-Za-z0-9_-]{40,100}+",
    r"fw_[A-Za-z0-9]{20,60}+",
    r"tvly-[A-Za-z0-9-]{16,60}+",
    r"npm_[A-Za-z0-9]{30,60}+",
    rf"pypi-{_T}{{40,512}}+",
    r"rubygems_[a-f0-9]{48}",
    r"(?:sk|rk|pk|sess)_(?:live|test|prod)_[A-Za-z0-9]{10,128}+",
    r"whsec_[A-Za-z0-9+/=]{20,100}+",
    rf"(?:lin_(?:api|oauth)|dckr_(?:pat|oat)|shp(?:pa|at|ss|ca)|figd|glsa|sntry[su]|ntn|CCIPAT|vercel_blob_rw){_P}",
    rf"(?:lsv2_(?:pt|sk)|tgp_v1|pcsk|PMAK|NRAK){_P}",
    rf"ATATT3{_T}{{20,512}}+(?:=[A-F0-9]{{8}})?",
    rf"ATCTT3{_T}{{20,512}}+(?:=[A-F0-9]{{8}})?",
    rf"(?<=hv[sbr]\.){_T}{{20,512}}+",
    r"(?<=[\s\"'=:]s\.)[A-Za-z0-9]{24}(?![A-Za-z0-9_-])",  # Vault before 1.10
    rf"(?<=SG\.){_T}{{16,32}}\.{_T}{{32,64}}",  # SendGrid
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,70}",
    r"A3-[A-Z0-9]{6}-[A-Z0-9-]{20,50}",
    r"(?:AC|SK)[a-f0-9]{32}(?![A-Za-z0-9])",  # Twilio
    r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",  # Airtable
    r"key-[a-f0-9]{32}",
    rf"[MNO][A-Za-z0-9_-]{{23,27}}\.{_T}{{6,7}}\.{_T}{{27,60}}+",  # Discord bot
)

# Prefixes that are words or short enough to begin other identifiers: what follows must look generated.
_LOOSELY_PREFIXED: Final = (
    r"(?:secret|pul|glc|fo1|EAAA|sq0[a-z]{3}|sbp|phx|rdme|ops|bkua|cfut|key|live|vcp|sgp|dd[ap]|e2b|jina|brv|csk|re)"
    r"[_-][A-Za-z0-9_-]{20,255}+"
)

TOKENS: Final = (
    Detector(
        name="secret",
        pattern=re.compile("|".join(_PREFIXED)),
        where=Where.AT_RUN,
    ),
    Detector(
        name="secret",
        # A key, not a slug such as `sk-learn-pipeline`: a digit, twelve unbroken letters, or an issuer's second part.
        pattern=re.compile(
            rf"(?i:sk)-(?<![A-Za-z0-9]..-)(?:(?:proj|ant|or|svcacct|admin|live|test|lf|ws|kimi|cp)-{_T}{{6,512}}+"
            rf"|(?=[A-Za-z_-]{{0,40}}[0-9]|[A-Za-z]{{12}}){_T}{{6,512}}+)"
        ),
        hints=("sk-",),
        where=Where.AT_HINT,
    ),
    Detector(
        name="secret",
        pattern=re.compile(r"(?<![A-Za-z0-9_.~-])[A-Za-z0-9_.~-]{3}\d[Qq]~[A-Za-z0-9_.~-]{31,40}+"),  # Microsoft Entra
        hints=("q~",),
        requires=("~",),
    ),
    Detector(
        name="secret",
        pattern=re.compile(rf"\d(?<![A-Za-z0-9_]\d)\d{{7,10}}:{_T}{{33,36}}(?![A-Za-z0-9_-])"),  # Telegram bot
        hints=(":aa",),
        requires=(":",),
    ),
    Detector(
        name="secret",
        pattern=re.compile(
            r"(?i)hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,200}+)"
        ),
        hints=("hooks.slack",),
        requires=("/",),
        where=Where.AT_HINT,
        group=1,
    ),
    Detector(
        name="secret",
        pattern=re.compile(rf"/api/webhooks/(\d{{10,25}}/{_T}{{20,200}}+)"),  # Discord
        hints=("/api/webhooks/",),
        requires=("/",),
        where=Where.AT_HINT,
        group=1,
    ),
    Detector(
        name="secret",
        pattern=re.compile(_LOOSELY_PREFIXED),
        check=lambda match: looks_generated(match[0]),
        where=Where.AT_RUN,
    ),
    Detector(
        name="jwt",
        # header.payload.signature (RFC 7519), five parts when encrypted (RFC 7516), and one that was cut short.
        pattern=re.compile(rf"ey[JK]{_T}{{12,}}+\.{_T}{{4,}}+(?:\.{_T}*+){{0,3}}"),
        where=Where.AT_RUN,
    ),
)
