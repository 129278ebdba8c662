"""The demo: recorded runs of real agents that ship with the project, and two runs made live through the Tracer."""

from tracehold_collector.demo.loading import RECORDED, load

__all__ = ["RECORDED", "load"]
