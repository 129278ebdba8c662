"""Where the collector is and how we prove who we are: checked once, at the start."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import re
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from tracehold.core.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:4318"
EVENTS_PATH = "/v1/events"

_PRINTABLE = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy on the way to the collector."""

    host: str
    port: int
    authorization: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A collector's address and the key it is told.

    Attributes:
        url: without user info, query, fragment and trailing slash; safe to log.
        path: what is asked for, with the URL's own prefix.
        api_key: sent as a bearer token; never shown.
    """

    url: str
    scheme: str
    host: str
    port: int
    path: str
    api_key: str | None = field(repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether requests stay on this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def spool_name(self) -> str:
        """Return the name of the folder that only this address with this key may send from.

        The key goes in as a digest of a digest: the name says nothing about it, and another tenant's key never
        finds these events.
        """
        key = hashlib.sha256((self.api_key or "").encode()).digest()
        return hashlib.sha256(self.url.encode() + b"\0" + key).hexdigest()[:32]

    def proxy(self) -> Proxy | None:
        """Return the proxy the environment names for this address; never one for loopback.

        Raises:
            ConfigurationError: it names one that cannot be used.
        """
        if self.is_loopback or urllib.request.proxy_bypass(self.host):
            return None
        named = urllib.request.getproxies().get(self.scheme)
        if not named:
            return None
        parts = urlsplit(named if "://" in named else f"http://{named}")
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigurationError(f"the {self.scheme} proxy in the environment must be an http:// URL with a host")
        return Proxy(parts.hostname, parts.port or _PORTS["http"], _basic(parts.username, parts.password))


def _basic(user: str | None, password: str | None) -> str | None:
    """Return a Basic credential (RFC 7617), or `None` without a user."""
    if user is None:
        return None
    pair = f"{unquote(user)}:{unquote(password or '')}".encode()
    return "Basic " + base64.b64encode(pair).decode("ascii")


def resolve_endpoint(url: str | None, api_key: str | None) -> Endpoint:
    """Return the endpoint from the arguments, else `TRACEHOLD_URL` and `TRACEHOLD_API_KEY`, else the default.

    Raises:
        ConfigurationError: the URL is not plain http or https, carries user info, a query or a fragment, or
            the key cannot stand in a header. The message never repeats a value that may hold a secret.
    """
    url = url or os.environ.get("TRACEHOLD_URL") or DEFAULT_URL
    key = api_key or os.environ.get("TRACEHOLD_API_KEY") or None
    if key is not None and not _PRINTABLE.fullmatch(key):
        raise ConfigurationError("the API key (api_key or TRACEHOLD_API_KEY) must be printable ASCII without spaces")
    if not _PRINTABLE.fullmatch(url):
        raise ConfigurationError("the collector URL (url or TRACEHOLD_URL) must be printable ASCII without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError(
            "the collector URL (url or TRACEHOLD_URL) cannot be parsed; check host and port"
        ) from None
    if "@" in parts.netloc:
        raise ConfigurationError("the collector URL must not carry a user or password; pass the key as api_key")
    if parts.scheme not in _PORTS:
        raise ConfigurationError("the collector URL must begin with http:// or https://")
    if not parts.hostname or parts.query or parts.fragment or "?" in url or "#" in url:
        raise ConfigurationError(
            "the collector URL must be scheme, host, port and path prefix, with no query or fragment"
        )
    prefix = parts.path.rstrip("/")
    return Endpoint(
        url=f"{parts.scheme}://{parts.netloc}{prefix}",
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else _PORTS[parts.scheme],
        path=prefix + EVENTS_PATH,
        api_key=key,
    )
