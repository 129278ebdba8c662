"""What the dashboard needs to know to reach a collector, read from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

URL_VARIABLE: Final = "TRACEHOLD_URL"
"""Where the collector answers, such as http://127.0.0.1:4318."""
KEY_VARIABLE: Final = "TRACEHOLD_API_KEY"
"""The key sent as `Authorization: Bearer`; unset on a loopback collector without keys."""
DEFAULT_URL: Final = "http://127.0.0.1:4318"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the collector.

    Attributes:
        url: base address without a trailing slash.
        api_key: sent as a bearer credential when not empty; never shown.
    """

    url: str = DEFAULT_URL
    api_key: str = field(default="", repr=False)

    @property
    def is_loopback(self) -> bool:
        """The collector is on this machine."""
        return urlsplit(self.url).hostname in {"127.0.0.1", "localhost", "::1"}


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings.

    Raises:
        ValueError: the address is not an http or https address; the text names the variable.
    """
    url = environment.get(URL_VARIABLE, "").strip().rstrip("/") or DEFAULT_URL
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{URL_VARIABLE} must be an address such as {DEFAULT_URL}")
    return Settings(url, environment.get(KEY_VARIABLE, "").strip())
