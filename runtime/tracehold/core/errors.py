"""Every error Tracehold raises on purpose.

    TraceholdError (RuntimeError)
    ├── ConfigurationError      a setting or argument cannot be used (also a ValueError)
    └── ExporterError           an exporter could not keep or hand over an event

Names end in `Error`; each is named by the state that makes it true (DEC-16: one root).
"""

from __future__ import annotations


class TraceholdError(RuntimeError):
    """Root of all errors that Tracehold raises on purpose (DEC-16)."""


class ConfigurationError(TraceholdError, ValueError):
    """A setting or argument cannot be used; the message names it, what it got and what it accepts."""


class ExporterError(TraceholdError):
    """An exporter could not keep or hand over an event; the message names the exporter and the next step."""
