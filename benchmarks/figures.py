"""Percentiles and tables."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lie, by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with aligned columns."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(column), *(len(row[place]) for row in texts)) for place, column in enumerate(columns)]
    print(title)
    print("  " + "  ".join(column.ljust(width) for column, width in zip(columns, widths, strict=True)))
    for row in texts:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print()
