"""The collector's settings: flag, then `TRACEHOLD_*` variable, then `tracehold.toml`, then default."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.accessfile import holds_keys
from tracehold_collector.core.times import parse_moment_ns

CONFIG_FILE = "tracehold.toml"
DEFAULT_PORT = 4318
DEFAULT_GRPC_PORT = 4317
MIN_KEY_CHARS = 24
MIN_ACCESS_LOG_DAYS = 183
"""Six months: what Regulation (EU) 2024/1689, Article 26(6), asks of the logs that a deployer of an AI system keeps."""


class CollectorSettings(BaseSettings):
    """What a collector can be told. Each field is a flag of `tracehold collect` and a `TRACEHOLD_*` variable."""

    model_config = SettingsConfigDict(
        env_prefix="TRACEHOLD_", toml_file=CONFIG_FILE, extra="ignore", env_ignore_empty=True, frozen=True
    )

    host: str = Field("127.0.0.1", description="address to listen on; anything but loopback needs an API key")
    port: int = Field(
        DEFAULT_PORT, ge=0, le=65535, description="port for OTLP/HTTP, native events and the API; 0 picks one"
    )
    grpc: bool = Field(True, description="whether to take OTLP/gRPC in")
    grpc_port: int = Field(DEFAULT_GRPC_PORT, ge=0, le=65535, description="port for OTLP/gRPC; 0 picks one")
    tls_cert: Path | None = Field(None, description="PEM file of the certificate chain; then both ports speak TLS")
    tls_key: Path | None = Field(None, description="PEM file of its private key, without a password")
    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("tracehold", appauthor=False)),
        description="folder of the store",
    )
    api_key: SecretStr | None = Field(
        None, description="one key for everything, shown as 'Authorization: Bearer ...' or 'x-api-key: ...'"
    )
    tenant: str = Field("default", min_length=1, max_length=128, description="whose data this collector takes in")
    forward: str | None = Field(None, description="OTLP/HTTP endpoint that gets a copy of what is taken in")
    forward_headers: SecretStr | None = Field(
        None, description="headers for --forward, as in OTEL_EXPORTER_OTLP_HEADERS: name=value,name=value"
    )
    forward_from: str | None = Field(
        None,
        description="'start', 'now', or a time: what came in since then is forwarded; by default, where it had got to",
    )
    memory_limit: str = Field("1GB", pattern=r"^\d+(\.\d+)?\s*([KMGT]i?B|%)$", description="DuckDB's memory budget")
    prices: Path | None = Field(None, description="your own prices, a TOML file; asked before the bundled ones")
    budgets: Path | None = Field(None, description="what may be spent, a TOML file; told and watched, not enforced")
    query_timeout_s: float = Field(30.0, gt=0, description="seconds after which a question is stopped")
    sql_memory_mb: int = Field(512, ge=64, description="mebibytes one statement of 'tracehold sql' may use")
    max_queued: int = Field(50_000, ge=1, description="events that may wait to be written before senders get 429")
    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="largest request body, in bytes")
    access_log_days: int = Field(
        400, ge=MIN_ACCESS_LOG_DAYS, le=36_500, description="days that a line of the access log is kept, 183 or more"
    )
    decoders: int = Field(
        default_factory=lambda: max(2, os.cpu_count() or 1),
        ge=0,
        le=64,
        description="processes that decode what comes in, started with the first large request; 0 decodes in this one",
    )
    audit_log: bool = Field(
        True, description="whether events get a place in the audit log; without it nobody can tell what was altered"
    )
    tree_head_events: int = Field(10_000, ge=1, description="events after which a tree head of the audit log is signed")
    tree_head_seconds: float = Field(10.0, ge=1, description="seconds after which one is signed, if anything came")
    tree_head_copies: str = Field(
        "", description="where else tree heads go: folders, s3://bucket/path, https://receiver, separated by commas"
    )
    min_retention_days: int = Field(
        MIN_ACCESS_LOG_DAYS, ge=0, le=36_500, description="days that purges by age and retention policies have to leave"
    )
    strict_erasure: bool = Field(
        False, description="whether an erasure needs a second person, with a key of their own, who approves of it"
    )
    retention: Path | None = Field(None, description="retention policies, a TOML file; applied once an hour")
    processing_record: Path | None = Field(
        None, description="what a controller says of its processing (GDPR Art. 30), a TOML file"
    )
    places: Path | None = Field(
        None, description="other stores that erasures reach: engines, trace files, sessions; a TOML file"
    )
    time_stamp_url: str | None = Field(
        None, pattern="^https?://", description="RFC 3161 authority that stamps tree heads; needs the extra timestamps"
    )
    time_stamp_hours: float = Field(24.0, gt=0, description="hours between two time stamps of one log")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags (given to the constructor), environment, file, in this order."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("api_key")
    @classmethod
    def _key_is_long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < MIN_KEY_CHARS:
            raise ValueError(f"an API key has at least {MIN_KEY_CHARS} characters; make one with: openssl rand -hex 24")
        return value

    @field_validator("forward_from")
    @classmethod
    def _forward_from_is_a_moment(cls, value: str | None) -> str | None:
        if value is not None and value not in {"start", "now"} and parse_moment_ns(value) is None:
            raise ValueError("give 'start', 'now', or a date or time such as 2026-11-30T08:00 (UTC unless said)")
        return value

    @model_validator(mode="after")
    def _outside_needs_a_key(self) -> CollectorSettings:
        if self.api_key is None and not is_loopback(self.host) and not holds_keys(self.data_dir):
            raise ValueError(no_key_for(self.host))
        return self

    @model_validator(mode="after")
    def _certificate_and_key(self) -> CollectorSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both PEM files, or neither")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> CollectorSettings:
        if self.grpc and self.port == self.grpc_port != 0:
            raise ValueError(
                f"port and grpc_port are both {self.port}; give one of them another number, or set grpc to false"
            )
        return self


def load_settings(**flags: Any) -> CollectorSettings:
    """Build the settings from flags (those that are not `None`), environment and file.

    Raises:
        ConfigurationError: names every setting that cannot be used, what it accepts, never a secret value.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return CollectorSettings(**given)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{CONFIG_FILE} in this folder is no TOML: {error}") from None
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'settings'}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_input=False, include_url=False)
        ]
        raise ConfigurationError("; ".join(faults)) from None


def no_key_for(host: str) -> str:
    """Return why a collector without a key does not listen on `host`, and how to make one."""
    return (
        f"refusing to listen on {host} without an API key: anyone who reaches it could read every trace. Make one with "
        "'tracehold keys create NAME --role admin --role content', or set TRACEHOLD_API_KEY to one from 'openssl rand "
        "-hex 24', or listen on 127.0.0.1"
    )


def is_loopback(host: str) -> bool:
    """Say whether `host` can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
