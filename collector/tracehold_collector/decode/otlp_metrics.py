"""An OTLP metrics request, in either encoding: how many data points it has. They are not stored."""

from __future__ import annotations

from typing import Any, Final

from tracehold_collector.decode.otlp_json_parts import as_object, groups
from tracehold_collector.decode.otlp_protobuf_parts import items_of, parse_protobuf, refuse_other_signals
from tracehold_collector.decode.otlp_signals import METRICS
from tracehold_collector.normalise.context import NormaliseContext

_SHAPES: Final = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def points_in_protobuf(body: bytes) -> int:
    """Return the number of data points in an ExportMetricsServiceRequest.

    Raises:
        BadBodyError: not such a request, or one of another signal.
    """
    request = parse_protobuf(body, METRICS).request
    points = 0
    for metric in items_of(request, METRICS):
        shape = metric.WhichOneof("data")
        points += len(getattr(metric, shape).data_points) if shape else 0
    if not points and body:
        refuse_other_signals(body, METRICS)
    return points


def points_in_json(request: Any, context: NormaliseContext) -> int:
    """Return the number of data points in a parsed request.

    Raises:
        BadBodyError: not such a request, or one of another signal.
    """
    points = 0
    for group in groups(request, METRICS, context):
        for metric in group.items:
            for shape in _SHAPES:
                found = as_object(as_object(metric).get(shape)).get("dataPoints")
                points += len(found) if isinstance(found, list) else 0
    return points
