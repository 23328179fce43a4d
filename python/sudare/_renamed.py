"""Old names of functions, which work for one more release."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def renamed(function: Callable[_P, _R], old: str) -> Callable[_P, _R]:
    """Makes the alias `old` of a function, which warns."""

    @functools.wraps(function)
    def alias(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        warnings.warn(
            f"{old} will be removed: call {function.__name__} instead",
            DeprecationWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    alias.__name__ = old
    alias.__doc__ = f"Old name of `{function.__name__}`, which will be removed."
    return alias
