"""All generators."""

from __future__ import annotations

from . import arguments, arrays, estimators, integers, networks, searches, tables
from .core import Generator

GENERATORS: list[Generator] = [
    *arrays.GENERATORS,
    *integers.GENERATORS,
    *tables.GENERATORS,
    *estimators.GENERATORS,
    *networks.GENERATORS,
    *searches.GENERATORS,
    *arguments.GENERATORS,
]
