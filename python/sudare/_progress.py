"""Progress of long steps."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from sudare._plain import flag

Callback: TypeAlias = Callable[[str, int, int], object]
"""Called with the name of a step, its finished parts, and the number of parts."""

Progress: TypeAlias = Callback | bool | None
"""A callback, or `True` to show progress."""

PartsProgress: TypeAlias = Callable[[int, int], object] | bool | None
"""A callback for the parts of a single step, or `True` to show progress."""

_SECONDS = 2.0
"""The least time between two lines of text about a step."""


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


class _Lines:
    """Lines of text on the standard error: the start, the end, and some parts of each step."""

    def __init__(self) -> None:
        self._what = ""
        self._shown = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self._what or done >= total or now - self._shown >= _SECONDS:
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)
            self._shown = now
        # The next step may have the same name.
        self._what = "" if done >= total else what


def callback(progress: Progress) -> Callback | None:
    """Returns the callback for native code.

    `True` shows bars where tqdm is installed, and otherwise lines of text.
    """
    if callable(progress):
        return progress
    if progress is None or not flag(progress, "progress"):
        return None
    try:
        return _Bars(importlib.import_module("tqdm.auto").tqdm)
    except ImportError:
        return _Lines()


def callback_of_parts(progress: PartsProgress, what: str) -> Callable[[int, int], object] | None:
    """Returns the callback for a single step with the name `what`."""
    if callable(progress):
        return progress
    report = callback(progress)
    return None if report is None else lambda done, total: report(what, done, total)
