"""Progress of long steps."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from sudare._plain import flag

Callback: TypeAlias = Callable[[str, int, int], object]
"""Called with the name of a step, its finished parts, and the number of parts."""

Progress: TypeAlias = Callback | bool | None
"""A callback, or `True` to show bars."""


class _Bars:
    """Bars of tqdm, one for each step."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None or self._bar.desc != f"{what}: ":
            self._bar = self._tqdm(total=total, desc=what, leave=False)
        self._bar.update(done - self._bar.n)
        # Native code does not announce the end of a step.
        if done >= total:
            self._bar.close()
            self._bar = None


def callback(progress: Progress) -> Callback | None:
    """Returns the callback for native code: bars of tqdm for `True`, where tqdm is installed."""
    if callable(progress):
        return progress
    if progress is None or not flag(progress, "progress"):
        return None
    try:
        return _Bars(importlib.import_module("tqdm.auto").tqdm)
    # Bars are a convenience: without tqdm the work runs all the same.
    except ImportError:
        return None
