"""A plain PDF on A4, made of headings, facts, lists and tables; takes any text (FR-15).

The fonts are those every reader has, which know Latin letters only. Any other character is written as its code point,
as in U+05D0, and the JSON beside the PDF has it as it is: no font is shipped for it, and no text from a stranger is
laid out from right to left, turned round or hidden.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace

_FONT: Final = "Helvetica"
_LABEL_MM: Final = 42.0
_LINE_MM: Final = 4.6
_MARGIN_MM: Final = 17.0
_MAX_CHARS: Final = 500
_MAX_ROWS: Final = 30
_GREY: Final = (95, 95, 95)
_TYPED: Final = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)
_HEADINGS: Final = FontFace(emphasis="BOLD", fill_color=(235, 235, 235))


def printable(text: object, limit: int = _MAX_CHARS) -> str:
    """Return a text as it can be printed: what the fonts do not know, and what cannot be seen, as U+ and hex digits."""
    told = str(text).translate(_TYPED)
    shown, length = [], 0
    for char in told[:limit]:
        shown.append(char if _is_plain(char) else f"[U+{ord(char):04X}]")
        length += len(shown[-1])
        if length > limit:
            break
    cut = f" ... ({len(told):,} characters, whole in the JSON)" if len(shown) < len(told) else ""
    return "".join(shown) + cut


def _is_plain(char: str) -> bool:
    return ord(char) < 0x100 and unicodedata.category(char)[0] != "C"  # noqa: PLR2004 - Latin-1


class Paper:
    """One document.

    Args:
        title: at its top, and in its properties.
        foot: at the bottom of each page, left of the page's number.
        made_at: UTC nanoseconds; the file says it was made then, so that the same document is the same bytes.
    """

    def __init__(self, title: str, foot: str, made_at: int) -> None:
        self._pdf = _Pages(printable(foot, 120))
        self._pdf.set_creation_date(datetime.fromtimestamp(made_at // 1_000_000_000, UTC))
        self._pdf.set_title(printable(title))
        self._pdf.set_producer("tracehold")
        self._pdf.set_margins(_MARGIN_MM, _MARGIN_MM)
        self._pdf.set_auto_page_break(auto=True, margin=_MARGIN_MM + 4)
        self._pdf.add_page()
        self._pdf.set_font(_FONT, "B", 17)
        self._write(title, 8)
        self._pdf.ln(1)

    def heading(self, text: str) -> None:
        """Begin a part."""
        if self._pdf.will_page_break(16):
            self._pdf.add_page()
        self._pdf.ln(3)
        self._pdf.set_font(_FONT, "B", 11)
        self._write(text, 6)
        self._pdf.ln(0.5)

    def text(self, text: object, *, small: bool = False, mono: bool = False) -> None:
        """Write a paragraph."""
        self._pdf.set_font("Courier" if mono else _FONT, "", 7.5 if small or mono else 9.5)
        self._pdf.set_text_color(*(_GREY if small else (0, 0, 0)))
        self._write(text, 3.8 if small or mono else _LINE_MM)
        self._pdf.set_text_color(0, 0, 0)
        self._pdf.ln(0.8)

    def facts(self, facts: Mapping[str, object]) -> None:
        """Write names and values side by side; what is `None` is left out."""
        for name, value in facts.items():
            if value is None:
                continue
            self._pdf.set_font(_FONT, "B", 9)
            self._pdf.cell(_LABEL_MM, _LINE_MM, printable(name), new_x=XPos.RIGHT, new_y=YPos.TOP)
            self._pdf.set_font(_FONT, "", 9.5)
            self._write(value, _LINE_MM)

    def items(self, items: Sequence[str], none: str) -> None:
        """Write a list; of a long one, the beginning and how many more there are."""
        self._pdf.set_font(_FONT, "", 9.5)
        if not items:
            self.text(none)
        for item in items[:_MAX_ROWS]:
            self._pdf.cell(4, _LINE_MM, "-", new_x=XPos.RIGHT, new_y=YPos.TOP)
            self._write(item, _LINE_MM)
        self._more(len(items))

    def table(self, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], widths: Sequence[int]) -> None:
        """Write a table; of a long one, the beginning and how many more rows there are.

        Args:
            columns: heading by the name of the value.
            rows: values by name.
            widths: of the columns, to each other.
        """
        self._pdf.set_font(_FONT, "", 8.5)
        with self._pdf.table(
            col_widths=tuple(widths), line_height=_LINE_MM, headings_style=_HEADINGS, text_align="LEFT"
        ) as table:
            table.row([printable(heading) for heading in columns.values()])
            for row in rows[:_MAX_ROWS]:
                values = [row.get(name) for name in columns]
                table.row(["" if value is None else printable(value, 160) for value in values])
        self._more(len(rows))

    def done(self) -> bytes:
        """Return the file."""
        return bytes(self._pdf.output())

    def _more(self, count: int) -> None:
        if count > _MAX_ROWS:
            self.text(f"... and {count - _MAX_ROWS:,} more, in the JSON", small=True)

    def _write(self, text: object, height: float) -> None:
        self._pdf.multi_cell(0, height, printable(text), align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)


class _Pages(FPDF):
    def __init__(self, foot: str) -> None:
        super().__init__(format="A4")
        self._foot = foot

    def footer(self) -> None:
        """Write the foot of a page."""
        self.set_y(-_MARGIN_MM)
        self.set_font(_FONT, "", 7)
        self.set_text_color(*_GREY)
        self.cell(0, 5, self._foot, align="L", new_x=XPos.LMARGIN, new_y=YPos.TOP)
        self.cell(0, 5, f"{self.page_no()} of {{nb}}", align="R")
        self.set_text_color(0, 0, 0)
