"""The dashboard as a child process: Streamlit, ending when the process that started it does.

    python -m tracehold_dashboard.child run APP [FLAGS ...]

Its parent starts it in a session of its own, so that Ctrl-C reaches the parent alone and the two end in order. A parent
that is killed cannot end anything: then this process notices that it was orphaned, and ends by itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Final

_LOOK_EVERY_S: Final = 1.0


def main() -> None:
    """Run Streamlit with this process's own arguments."""
    from streamlit.web.cli import main as streamlit  # noqa: PLC0415 - an optional extra, and slow to import

    threading.Thread(target=_end_with, args=(os.getppid(),), name="tracehold-parent", daemon=True).start()
    sys.argv[0] = "streamlit"
    streamlit()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(0)


if __name__ == "__main__":
    main()
