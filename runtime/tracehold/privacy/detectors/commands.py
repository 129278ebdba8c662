"""Passwords given on a command line, and lines of password files."""

from __future__ import annotations

import re
from typing import Final

from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors.values import is_placeholder, names_secret

_ARGUMENT: Final = r"(?:\\?\"(?P<a>[^\"\\\n]{1,512}+)|'(?P<b>[^'\n]{1,512}+)|(?P<secret>[^\s\"'`;|<>]{1,512}+))"


def _not_placeholder(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


COMMANDS: Final = (
    Detector(
        name="password",
        pattern=re.compile(r"--(?P<name>[A-Za-z][A-Za-z0-9_-]{1,40}+)[ \t]{1,4}[\"']?(?P<secret>(?!-)[^\s\"'`;|<>]{3,512}+)"),
        hints=("--pass", "--token", "--secret", "--api", "--key", "--auth", "--access", "--client", "--http-pass", "--pwd", "--db"),
        check=lambda match: names_secret(match["name"]) and _not_placeholder(match),
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"(?:-u|--user|--proxy-user)(?:[ =]{0,2})[\"']?[^\s:\"'$]{1,64}+:(?P<secret>[^\s\"'`;|<>]{1,256}+)"),
        hints=("-u ", "-u", "--user", "--proxy-user"),
        requires=("curl", "http ", "wget"),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(
            r"(?:mysql(?:dump|admin|import)?|mariadb(?:-dump)?|sshpass|docker login|7z|unzip|zip|smbclient|ldapsearch|mongo(?:sh|dump|restore)?)"
            r"(?=[^\n]{0,400}?\s-(?:p|w|P)[ =]?[\"']?(?P<secret>[^\s\"'`;|<>-][^\s\"'`;|<>]{2,255}+))"
        ),
        hints=("mysql", "mariadb", "sshpass", "docker login", "ldapsearch", "mongo"),
        requires=(" -p", " -w"),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"redis-cli[^\n]{0,200}?\s-a[ ](?P<secret>[^\s\"'`;|<>]{3,256}+)"),
        hints=("redis-cli",),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"pass:(?P<secret>[^\s\"'`;|<>]{3,256}+)"),  # openssl -passin pass:...
        hints=("pass:",),
        requires=("-passin", "-passout", "-pass ", "openssl"),
        check=_not_placeholder,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"password\s{1,8}(?P<secret>\S{3,256}+)"),  # .netrc
        hints=("password ", "password\t", "password\n"),
        requires=("login ", "login\t", "login\n"),
        check=lambda match: "machine" in match.string or "default" in match.string,
        group="secret",
        where=Where.AT_HINT,
    ),
    Detector(
        name="password",
        pattern=re.compile(r"^[^\s:#]{1,255}+:(?:\d{2,5}|\*):[^\s:]{1,64}+:[^\s:]{1,64}+:(?P<secret>[^\s]{3,256}+)$", re.MULTILINE),
        hints=(":5432:", ":5433:", ":6432:", ":*:", ".pgpass"),
        group="secret",
    ),
    Detector(
        name="password",
        pattern=re.compile(r"\$(?:2[abxy]|5|6|y|argon2(?:id|i|d))\$[A-Za-z0-9./$,=+-]{20,256}+"),  # crypt(5) hashes
        hints=("$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$argon2"),
        where=Where.AT_HINT,
    ),
)
