"""What a Tracer is given, looked at before it is used: a mistake is named where it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracehold.observability.exporters.base import TraceExporter


def checked_exporters(given: object) -> list[TraceExporter]:
    """Return the exporters as a list.

    Raises:
        TypeError: it is no list of exporters.
    """
    if _is_exporter(given):
        raise TypeError(f"exporters is a list of exporters: [{type(given).__name__}(...)], not one alone")
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"exporters is a list of exporters such as [JsonlExporter(path)], not {_named(given)}")
    exporters = list(given)
    for place, one in enumerate(exporters):
        if not _is_exporter(one):
            raise TypeError(f"exporters[{place}] is {_named(one)}; give exporters such as [JsonlExporter(path)]")
    return exporters


def check_event(event: object) -> None:
    """Refuse what is no event.

    Raises:
        TypeError: it is no mapping.
        ValueError: it has no type.
    """
    if type(event) is not dict and not isinstance(event, Mapping):
        raise TypeError(f"an event is a mapping such as {{'type': 'tool_call'}}, not of type {type(event).__name__}")
    kind = event.get("type")
    if not isinstance(kind, str) or not kind:
        what = f"is of type {type(kind).__name__}" if "type" in event and kind != "" else "is missing or empty"
        raise ValueError(f"an event needs a text under 'type', such as 'tool_call'; it {what}")


def _is_exporter(given: object) -> bool:
    # By what it can do: whoever tests a program need not inherit from us.
    return isinstance(given, TraceExporter) or (
        not isinstance(given, type) and callable(getattr(given, "export", None))
    )


def _named(given: object) -> str:
    if isinstance(given, str):
        return f"the text {given!r}"
    return f"the class {given.__name__}" if isinstance(given, type) else f"of type {type(given).__name__}"
