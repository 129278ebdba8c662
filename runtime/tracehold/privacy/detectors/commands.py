"""Passwords given on a command line, and lines of password files."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_placeholder, names_secret

_HTTP_CLIENTS: Final = ("curl", "wget", "http ", "xh ")
_PASSWORD_CLIENTS: Final = (
    "mysql", "mariadb", "sshpass", "docker login", "ldapsearch", "mongo", "7z ", "zip ", "smbclient",
)  # fmt: skip
_COMMAND_MAX: Final = 300


def _follows_command(match: re.Match[str], names: tuple[str, ...]) -> bool:
    """Return whether one of the commands stands before the option, on its line."""
    text, start = match.string, match.start()
    begin = max(0, start - _COMMAND_MAX)
    line = text[max(begin, text.rfind("\n", begin, start) + 1) : start + 1]
    return any(name in line for name in names)


def _not_placeholder(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


COMMANDS: Final = (
    Detector(
        name="password",
        pattern=re.compile(
            r"--(?P<name>[A-Za-z][A-Za-z0-9_-]{1,40}+)[ \t]{1,4}[\"']?(?P<secret>(?!-)[^\s\"'`;|<>]{3,512}+)"
        ),
        hints=("--",),
        requires=("-",),
        check=lambda match: names_secret(match["name"]) and _not_placeholder(match),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(
            r" (?:-u|--user|--proxy-user)[ =]{0,2}[\"']?[^\s:\"'$]{1,64}+:(?P<secret>[^\s\"'`;|<>]{1,256}+)"
        ),
        hints=(" -u", " --user", " --proxy-user"),
        requires=(" -",),
        check=lambda match: _follows_command(match, _HTTP_CLIENTS) and _not_placeholder(match),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r" -[pwP][ =]?[\"']?(?P<secret>[^\s\"'`;|<>-][^\s\"'`;|<>]{2,255}+)"),
        hints=(" -p", " -w"),
        requires=(" -",),
        check=lambda match: _follows_command(match, _PASSWORD_CLIENTS) and _not_placeholder(match),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(
            r"(?:configure|config) set (?P<name>[A-Za-z][A-Za-z0-9_.-]{1,64}+) [\"']?(?P<secret>[^\s\"'`;|<>]{3,512}+)"
        ),
        hints=("config",),
        check=lambda match: names_secret(match["name"]) and _not_placeholder(match),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"redis-cli[^\n]{0,200}?\s-a[ ](?P<secret>[^\s\"'`;|<>]{3,256}+)"),
        hints=("redis-cli",),
        requires=(" -",),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"pass:(?P<secret>[^\s\"'`;|<>]{3,256}+)"),  # openssl -passin pass:...
        hints=("pass:",),
        requires=(" -",),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"login\s{1,8}\S{1,256}+\s{1,8}password\s{1,8}(?P<secret>\S{3,256}+)"),  # .netrc
        hints=("login",),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(
            r"^[^\s:#]{1,255}+:(?:\d{2,5}|\*):[^\s:]{1,64}+:[^\s:]{1,64}+:(?P<secret>[^\s]{3,256}+)$", re.MULTILINE
        ),
        hints=(":5432:", ":5433:", ":6432:", ":*:", ".pgpass"),
        requires=(":",),
        group="secret",
    ),
    Detector(
        name="password",
        pattern=re.compile(r"\$(?:2[abxy]|5|6|y|argon2(?:id|i|d))\$[A-Za-z0-9./$,=+-]{20,256}+"),  # crypt(5) hashes
        hints=("$",),
        where=Where.AT_HINT,
    ),
)
