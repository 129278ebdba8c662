"""Numbers of a configuration, refused where they are set rather than in the middle of a run."""

from __future__ import annotations

from tracehold.core.errors import ConfigurationError


def at_least(name: str, value: int, least: int) -> None:
    """Refuse what is no integer, or below `least`, with `ConfigurationError`; a bool is no integer."""
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{name} must be an integer of at least {least}, not {value!r}")


def fraction(name: str, value: float) -> None:
    """Refuse what is no number from 0 to 1 with `ConfigurationError`; NaN and bools are none."""
    if type(value) not in {int, float} or not 0 <= value <= 1:
        raise ConfigurationError(f"{name} must be a number from 0 to 1, not {value!r}")


def positive_fraction(name: str, value: float) -> None:
    """Refuse what is no number above 0 and at most 1 with `ConfigurationError`."""
    if type(value) not in {int, float} or not 0 < value <= 1:
        raise ConfigurationError(f"{name} must be a number above 0 and at most 1, not {value!r}")
