"""All generators."""

from __future__ import annotations

from . import arrays, integers, tables
from .core import Generator

GENERATORS: list[Generator] = [*arrays.GENERATORS, *integers.GENERATORS, *tables.GENERATORS]
