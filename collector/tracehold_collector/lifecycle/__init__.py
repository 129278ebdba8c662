"""The collector's own story: when it ran, when it did not or sent senders away, and why."""

from tracehold_collector.lifecycle.recorder import Lifecycle as Lifecycle
