"""Where to send and as whom."""

from __future__ import annotations

import pytest
from tracehold.core.errors import ConfigurationError
from tracehold.observability.exporters.collector.endpoint import DEFAULT_URL, resolve_endpoint


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in ("TRACEHOLD_URL", "TRACEHOLD_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_argument_wins_over_the_environment_and_that_over_the_default(monkeypatch):
    assert resolve_endpoint(None, None).url == DEFAULT_URL
    monkeypatch.setenv("TRACEHOLD_URL", "http://collector:4318/")
    monkeypatch.setenv("TRACEHOLD_API_KEY", "from-outside")
    assert resolve_endpoint(None, None).url == "http://collector:4318"
    assert resolve_endpoint(None, None).api_key == "from-outside"
    assert resolve_endpoint("https://other", "given").url == "https://other"
    assert resolve_endpoint("https://other", "given").api_key == "given"


def test_empty_settings_are_no_settings(monkeypatch):
    monkeypatch.setenv("TRACEHOLD_URL", "")
    monkeypatch.setenv("TRACEHOLD_API_KEY", "")
    assert resolve_endpoint("", "").url == DEFAULT_URL
    assert resolve_endpoint("", "").api_key is None


def test_a_prefix_stands_before_the_path():
    endpoint = resolve_endpoint("https://example.org/traces/", None)
    assert (endpoint.host, endpoint.port, endpoint.path) == ("example.org", 443, "/traces/v1/events")


def test_an_ipv6_address_is_understood():
    endpoint = resolve_endpoint("http://[::1]:4318", None)
    assert (endpoint.host, endpoint.port, endpoint.is_loopback) == ("::1", 4318, True)


SECRET = "swordfish" + "-made-up"


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@host",
        f"http://{SECRET}@host",
        f"ftp://host/{SECRET}",
        f"http://host/?key={SECRET}",
        f"http://host/#{SECRET}",
        f"http://host:{SECRET}",
        f"http://host/{SECRET}\r\nX: y",
        f"http:///{SECRET}",
        f"{SECRET}",
        f"http://[{SECRET}",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_repeated(url):
    with pytest.raises(ConfigurationError, match="URL") as caught:
        resolve_endpoint(url, None)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", [SECRET + "\r\nX: y", SECRET + " ", SECRET + "é"])
def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_repeated(key):
    with pytest.raises(ConfigurationError, match="TRACEHOLD_API_KEY") as caught:
        resolve_endpoint(None, key)
    assert SECRET not in str(caught.value)


def test_the_key_is_not_shown():
    assert SECRET not in repr(resolve_endpoint(None, SECRET))


def test_every_address_and_key_has_a_spool_of_its_own():
    names = {
        resolve_endpoint(url, key).spool_name()
        for url in ("http://a", "http://b", "https://a")
        for key in (None, "one", "two")
    }
    assert len(names) == 9
    assert resolve_endpoint("http://a/", "one").spool_name() in names


@pytest.mark.parametrize("url", ["http://127.0.0.1:4318", "http://localhost", "http://[::1]", "http://x.localhost"])
def test_loopback_never_goes_through_a_proxy(monkeypatch, url):
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    assert resolve_endpoint(url, None).proxy() is None


def test_a_named_proxy_is_used_elsewhere_and_its_password_not_shown(monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://user:{SECRET}@proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "inside.invalid")
    assert resolve_endpoint("http://inside.invalid", None).proxy() is None
    proxy = resolve_endpoint("http://collector.invalid", None).proxy()
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy.invalid", 3128)
    assert proxy.authorization is not None
    assert proxy.authorization.startswith("Basic ")
    assert SECRET not in repr(proxy)


def test_a_proxy_of_an_unknown_kind_is_refused(monkeypatch):
    monkeypatch.setenv("https_proxy", "socks5://proxy.invalid")
    with pytest.raises(ConfigurationError, match="proxy"):
        resolve_endpoint("https://collector.invalid", None).proxy()
