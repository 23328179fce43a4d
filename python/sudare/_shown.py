"""Tables for notebooks."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

_MAX_ROWS = 60
"""The maximum number of rows of a table that are shown."""

_LEFT = ' style="text-align: left"'


class Facts:
    """A value whose facts have names. It prints as a table."""

    def _facts(self) -> Mapping[str, str]:
        """Returns the facts by name."""
        raise NotImplementedError

    def __str__(self) -> str:
        facts = self._facts()
        width = max(map(len, facts))
        below = "\n" + " " * (width + 2)
        lines = (f"{name:{width}}  {value}".replace("\n", below) for name, value in facts.items())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self._facts())


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Returns a table of facts with names."""
    rows = "".join(
        f"<tr><th{_LEFT}>{escape(name)}</th><td{_LEFT}>"
        + escape(text_of(value)).replace("\n", "<br/>")
        + "</td></tr>"
        for name, value in facts.items()
    )
    return _table(title, f"<tbody>{rows}</tbody>")


def columns_html(
    title: str, columns: Mapping[str, Iterable[object]], notes: Sequence[str] = ()
) -> str:
    """Returns a table of columns of equal length, with sentences below it."""
    cells = [list(column) for column in columns.values()]
    count = len(cells[0]) if cells else 0
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(_cell(column[row]) for column in cells) + "</tr>"
        for row in range(min(count, _MAX_ROWS))
    )
    if count > _MAX_ROWS:
        notes = [f"{count - _MAX_ROWS} more rows are not shown.", *notes]
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return _table(title, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>") + below


def _table(title: str, content: str) -> str:
    # The class gives it the look of frames of pandas.
    caption = f"<caption{_LEFT}>{escape(title)}</caption>"
    return f'<table class="dataframe">{caption}{content}</table>'


def _cell(value: object) -> str:
    side = "" if isinstance(value, (numbers.Number, np.bool_)) else _LEFT
    return f"<td{side}>{escape(text_of(value))}</td>"


def text_of(value: object) -> str:
    """Returns the text of a value, with numbers to six digits."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    return str(value)


def megabytes(count: int) -> str:
    """Returns a number of bytes in megabytes or gigabytes."""
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def duration(seconds: float) -> str:
    """Returns a time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
