"""Draws numbers of all sizes, types, orders and containers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .core import Rng

Floats = npt.NDArray[np.float64]


def magnitude(rng: Rng) -> float:
    """Draws a magnitude: usually near 1, sometimes anywhere from 1e-6 to 1e9."""
    kind = rng.random()
    if kind < 0.5:
        return 1.0
    if kind < 0.75:
        return float(rng.choice([0.01, 0.5, 4.0, 20.0, 100.0, 500.0, 1000.0]))
    return float(10.0 ** rng.uniform(-6, 9))


def numbers(rng: Rng, shape: tuple[int, ...], size: float) -> Floats:
    """Draws numbers of at most this magnitude."""
    kind = rng.integers(0, 8)
    if kind == 0:
        # Far from zero with a small spread, such as heights or years.
        found = size * (0.95 + 0.05 * rng.random(shape))
    elif kind == 1:
        found = np.full(shape, size)
    elif kind == 2:
        found = np.round(size * rng.uniform(-1, 1, shape))
    elif kind == 3:
        found = size * rng.choice([-1.0, -0.0, 0.0, 1.0], shape)
    elif kind == 4:
        # One outlier among small numbers.
        found = size * 1e-4 * rng.uniform(-1, 1, shape)
        if found.size:
            found.reshape(-1)[rng.integers(found.size)] = size
    elif kind == 5:
        found = size * rng.random(shape)
    else:
        found = size * rng.uniform(-1, 1, shape)
    return np.asarray(found, dtype=np.float64)


_TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def typed(rng: Rng, values: Floats) -> npt.NDArray[Any]:
    """Converts numbers to another NumPy type, as far as it can represent them."""
    if rng.random() < 0.5:
        return values
    name = str(rng.choice([*_TYPES, "float16", "float32", "longdouble"]))
    with np.errstate(all="ignore"):
        if name == "bool":
            return np.asarray(values > 0)
        if name.startswith(("int", "uint")):
            info = np.iinfo(name)
            whole = np.clip(np.round(values), float(info.min), float(info.max) * (1 - 2**-52))
            return np.asarray(whole.astype(name))
        if name == "float16":
            return np.asarray(np.clip(values, -6e4, 6e4).astype(name))
        return np.asarray(values.astype(name))


def ordered(rng: Rng, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the same elements in another memory order."""
    kind = rng.integers(0, 6)
    if kind == 0:
        return np.asarray(values, order="F")
    if kind == 1 and values.ndim:
        # A view whose strides are negative.
        return np.ascontiguousarray(values[::-1])[::-1]
    if kind == 2 and values.ndim:
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype=values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if kind == 3:
        # Another byte order.
        return values.astype(values.dtype.newbyteorder())
    if kind == 4:
        frozen = np.array(values)
        frozen.flags.writeable = False
        return frozen
    return values


def contained(rng: Rng, values: npt.NDArray[Any]) -> tuple[Any, str]:
    """Returns the same elements in another container, and its name."""
    import pandas as pd

    options: list[tuple[str, Callable[[npt.NDArray[Any]], Any]]] = [
        ("list", lambda v: v.tolist()),
        ("masked array without a mask", np.ma.asarray),
    ]
    if values.ndim == 1:
        options += [
            ("tuple", lambda v: tuple(v.tolist())),
            ("Series", lambda v: pd.Series(v.astype(v.dtype.newbyteorder("=")))),
            ("memoryview", lambda v: np.array(v, dtype=np.float64).data),
        ]
    if values.ndim == 2:
        frame: Callable[[Any], Any] = lambda v: pd.DataFrame(v.astype(v.dtype.newbyteorder("=")))
        options.append(("DataFrame", frame))
    if values.ndim == 0:
        options.append(("scalar", lambda v: v.item()))
    if rng.random() < 0.7:
        return values, "array"
    name, make = options[rng.integers(len(options))]
    return make(values), name


def odd(rng: Rng, shape: tuple[int, ...]) -> tuple[Any, Floats | None, str]:
    """Values of a type that is no plain number: what they are, the numbers that a careful reader
    sees in them if any, and what they are called."""
    import pandas as pd

    plain = np.round(rng.uniform(-3, 3, shape), 2)
    flat = plain.ravel().tolist()

    def boxed(items: list[Any]) -> npt.NDArray[Any]:
        found = np.empty(len(items), dtype=object)
        found[:] = items
        return found.reshape(shape)

    options: list[tuple[Any, Floats | None, str]] = [
        (boxed([Decimal(str(x)) for x in flat]), plain, "Decimal"),
        (boxed([Fraction(str(x)) for x in flat]), plain, "Fraction"),
        (boxed(flat), plain, "object floats"),
        (boxed([int(x) for x in flat]), np.trunc(plain), "object integers"),
        (boxed([2**70 + int(x) for x in flat]), 2.0**70 + np.trunc(plain), "huge integers"),
        (boxed([str(x) for x in flat]), None, "text objects"),
        (boxed([None] + flat[1:]), None, "None"),
        (boxed([bytes(3)] * len(flat)), None, "bytes"),
        (plain.astype(str), None, "text"),
        (plain.astype("S"), None, "byte strings"),
        (plain + 1j, None, "complex"),
        (plain + 0j, None, "complex without imaginary parts"),
        ((plain * 100).astype("timedelta64[s]"), None, "durations"),
        ((plain * 1e4).astype("datetime64[s]"), None, "times"),
        (np.where(plain > 0, np.nan, plain), None if (plain > 0).any() else plain, "NaN"),
        (np.where(plain > 0, np.inf, plain), None if (plain > 0).any() else plain, "infinity"),
        (np.ma.masked_array(plain, plain > 0), None if (plain > 0).any() else plain, "masked"),
    ]
    if len(shape) == 1:
        nullable = pd.array([int(x) for x in flat], dtype="Int64")
        gaps = pd.array([int(x) for x in flat[1:]] + [None], dtype="Int64")
        options += [
            (nullable, np.trunc(plain), "nullable integers"),
            (gaps, None, "nullable integers with a gap"),
            (pd.array(flat, dtype="Float64"), plain, "nullable floats"),
            (pd.Categorical([str(x) for x in flat]), None, "categories"),
            (pd.Series(pd.Categorical([int(x) for x in flat])), np.trunc(plain), "categories of numbers"),
            (flat + ["x"], None, "a list with a word"),
            ([flat, flat[:-1]], None, "ragged rows"),
        ]
        import pyarrow as pa

        chunks = pa.chunked_array([flat[:1], flat[1:]], type=pa.float64())
        options.append((chunks, plain, "chunked column"))
    return options[rng.integers(len(options))]
