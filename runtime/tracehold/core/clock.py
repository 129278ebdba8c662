"""The one place where the runtime reads the wall clock."""

from __future__ import annotations

import time

now_ns = time.time_ns
"""Nanoseconds since the Unix epoch, UTC. Read through this name so that a test can replace the clock."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
