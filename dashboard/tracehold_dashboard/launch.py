"""How a program starts the dashboard: the command line and the environment of its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tracehold_dashboard.settings import DEFAULT_URL, URL_VARIABLE, load

APP: Final = Path(__file__).with_name("app.py")
"""The Streamlit script."""

# Nothing here reaches out of the machine: no usage figures, no update check, fonts and scripts from the package.
_OPTIONS: Final[Mapping[str, str]] = {
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",  # a traceback could carry what a trace said
    "client.toolbarMode": "minimal",
    "server.fileWatcherType": "none",
    "server.headless": "true",
    "server.showEmailPrompt": "false",
    # Per scheme, and nothing under plain `theme`: that would pin the page to the light one.
    "theme.light.primaryColor": "#0f766e",
    "theme.dark.primaryColor": "#14b8a6",
}


def command(host: str, port: int, collector_url: str = DEFAULT_URL) -> list[str]:
    """Build the command line of the dashboard's process.

    Args:
        host: address to listen on, such as 127.0.0.1.
        port: TCP port to listen on.
        collector_url: where the collector answers. Only checked here, so that a wrong one stops the start; it
            travels in the environment, see `environment`.

    Returns:
        The argument vector, this Python first.

    Raises:
        ValueError: `collector_url` is not an http or https address.
    """
    load({URL_VARIABLE: collector_url})
    options = dict(_OPTIONS) | {
        "server.address": host,
        "server.port": str(port),
        "browser.serverAddress": host,
    }
    flags = [f"--{name}={value}" for name, value in sorted(options.items())]
    return [sys.executable, "-m", "tracehold_dashboard.child", "run", str(APP), *flags]


def environment(collector_url: str, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build the environment of the dashboard's process: `base`, with the collector's address in it.

    The API key stays where it is, in `TRACEHOLD_API_KEY`: a command line can be read by every user of a machine.
    """
    return {**base, URL_VARIABLE: collector_url}
