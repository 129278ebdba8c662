"""Fast or long: how many examples, kills and rounds the randomised tests take."""

from __future__ import annotations

import os

SOAK = os.environ.get("TRACEHOLD_PROFILE") == "soak"
