"""Keeps a process small."""

from __future__ import annotations

import sys


class _NoPandas:
    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def without_pandas() -> None:
    """Let nothing import pandas from now on, in this whole process.

    pyarrow imports it, when it is installed, to see whether a list is one of its series: 45 MB and half a second, in a
    process that has no use for it.
    """
    sys.meta_path.insert(0, _NoPandas())
