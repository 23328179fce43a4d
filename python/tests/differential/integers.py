"""Compares random programs of encrypted integers with Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import sudare

from .arrays import Step, _compatible, _show
from .core import Case, Expected, Generator, Rng, Verdict, attempt, judge
from .values import ordered

Objects = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Setting:
    """The arguments of a context."""

    t: int
    depth: int
    scheme: Any
    signed: bool
    preset: str = ""
    log_n: int | None = None

    def text(self) -> str:
        """As Python has it."""
        options = f"scheme={self.scheme!r}, signed={self.signed}"
        if self.preset:
            small = "" if self.log_n is None else f", insecure_log_n={self.log_n}"
            return f"sudare.IntegerContext.preset({self.preset!r}, {options}{small})"
        return f"sudare.IntegerContext(t={self.t}, depth={self.depth}, {options})"


@cache
def _context(setting: Setting) -> sudare.IntegerContext:
    if setting.preset:
        return sudare.IntegerContext.preset(
            setting.preset,
            scheme=setting.scheme,
            signed=setting.signed,
            insecure_log_n=setting.log_n,
        )
    return sudare.IntegerContext(
        setting.t, setting.depth, scheme=setting.scheme, signed=setting.signed
    )


@dataclass(frozen=True)
class Operand:
    """Integers as arguments, and their values."""

    given: Any
    plain: Objects | None
    """The values, `None` if they are not integers."""
    what: str


def _reduced(values: Any, setting: Setting) -> Objects:
    """In the range of the context."""
    found = np.asarray(values, dtype=object) % setting.t
    if setting.signed:
        found = np.where(found > setting.t // 2, found - setting.t, found)
    return np.asarray(found, dtype=object)


def _polynomial(x: Any, coefficients: Any) -> Any:
    found = x * 0
    for coefficient in reversed([int(c) for c in coefficients]):
        found = found * x + coefficient
    return found


CLEAR: dict[str, Any] = {
    "square": lambda x: x * x,
    "total": lambda x: np.asarray(np.sum(x, dtype=object), dtype=object),
    "rotate": lambda x, k: np.roll(x, -k, axis=-1),
    "swap_rows": lambda x: np.flip(x, axis=-2),
    "polynomial": _polynomial,
}
ENCRYPTED: dict[str, Any] = {
    "square": lambda x: x.square(),
    "total": lambda x: x.sum(),
    "rotate": lambda x, k: x.rotate(k),
    "swap_rows": lambda x: x.swap_rows(),
    "polynomial": lambda x, c: x.polynomial(c),
}


@dataclass(frozen=True)
class IntegerCase(Case):
    """A program of integers."""

    setting: Setting
    inputs: tuple[Operand, ...]
    constants: dict[str, Operand]
    steps: tuple[Step, ...]
    output: int
    promised: bool
    """Returns whether the program fits the levels that the pages promise for the context."""

    def describe(self) -> str:
        lines = [f"ctx = {self.setting.text()}"]
        for i, item in enumerate(self.inputs):
            lines.append(f"r{i} = ctx.encrypt({_show(item.given)})  # {item.what}")
        for name, constant in self.constants.items():
            lines.append(f"{name} = {_show(constant.given)}  # {constant.what}")
        lines += [f"r{step.target} = {step.text}" for step in self.steps]
        return "\n".join([*lines, f"return r{self.output}"])

    def run(self, *, execute: bool) -> Verdict:
        clear = attempt(self._clear)
        found = attempt(self._encrypted)
        outcomes = {"execute": found}
        if clear.error is not None:
            return judge(outcomes, None)
        expected = {"execute": Expected(clear.value, 0.0)}
        must = "pages say that the depth is enough" if self.promised else None
        return judge(outcomes, expected, must=must)

    def _clear(self) -> Objects:
        names: dict[str, Any] = {"np": np, **CLEAR}
        for i, item in enumerate(self.inputs):
            if item.plain is None or _outside(item.plain, self.setting):
                raise ValueError("out of range")
            names[f"r{i}"] = item.plain
        for name, constant in self.constants.items():
            if constant.plain is None:
                raise TypeError("no integers")
            names[name] = constant.plain
        for step in self.steps:
            value = np.asarray(eval(step.text, names), dtype=object)
            names[f"r{step.target}"] = _reduced(value, self.setting)
        return _reduced(names[f"r{self.output}"], self.setting)

    def _encrypted(self) -> npt.NDArray[np.int64]:
        ctx = _context(self.setting)
        names: dict[str, Any] = {"np": np, **ENCRYPTED}
        names |= {name: constant.given for name, constant in self.constants.items()}
        names |= {f"r{i}": ctx.encrypt(item.given) for i, item in enumerate(self.inputs)}
        for step in self.steps:
            names[f"r{step.target}"] = eval(step.text, names)
        return ctx.decrypt(names[f"r{self.output}"])

    def smaller(self) -> Iterator[Case]:
        for step in self.steps:
            if step.target < self.output:
                yield replace(self, output=step.target).trimmed()
        for i, item in enumerate(self.inputs):
            if item.plain is not None and item.what != "array of int64":
                if any(abs(int(n)) > 2**62 for n in item.plain.flat):
                    continue
                plain = Operand(item.plain.astype(np.int64), item.plain, "array of int64")
                yield replace(self, inputs=(*self.inputs[:i], plain, *self.inputs[i + 1 :]))

    def trimmed(self) -> IntegerCase:
        """Without steps that the output does not need."""
        needed = {f"r{self.output}"}
        kept: list[Step] = []
        for step in reversed(self.steps):
            if f"r{step.target}" in needed:
                kept.append(step)
                needed |= set(re.findall(r"\b[rk]\d+\b", step.text))
        constants = {name: value for name, value in self.constants.items() if name in needed}
        return replace(self, steps=tuple(reversed(kept)), constants=constants)


def _outside(values: Objects, setting: Setting) -> bool:
    low, high = (-(setting.t // 2), setting.t // 2) if setting.signed else (0, setting.t - 1)
    return any(not low <= int(value) <= high for value in values.flat)


def _operand(rng: Rng, shape: tuple[int, ...], setting: Setting, *, plain: bool) -> Operand:
    """Integers of the range of the context; plain ones may leave it."""
    half = setting.t // 2
    low, high = (-half, half) if setting.signed else (0, setting.t - 1)
    kind = rng.random()
    if kind < 0.35:
        low, high = max(low, -16), min(high, 16)
    elif kind < 0.45:
        low, high = max(low, 0), min(high, 1)
    found = rng.integers(low, high, shape, endpoint=True)
    if kind > 0.9:
        found = np.where(rng.random(shape) < 0.5, low, high)
    if kind > 0.98:
        found = found + setting.t
    array = np.asarray(found, dtype=np.int64)
    if plain and rng.random() < 0.08:
        # More than a word holds, or nearly.
        big = int(rng.choice([2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30]))
        items = np.asarray(array, dtype=object) + big
        return Operand(items, items, "huge integers")
    objects = np.asarray(array, dtype=object)
    if rng.random() < 0.04:
        halves = array + 0.5 if rng.random() < 0.5 else array.astype(np.float64)
        # Whole numbers as floats may be taken or refused.
        whole = objects if halves.dtype.kind == "f" and (halves == array).all() else None
        return Operand(halves, whole, "floats")
    for name in rng.permutation(["bool", "int8", "uint8", "int16", "uint32", "uint64", "int64"]):
        if rng.random() < 0.3 and (array.astype(str(name)) == array).all():
            typed = ordered(rng, np.asarray(array.astype(str(name))))
            return Operand(typed, objects, f"array of {typed.dtype}")
    kind = rng.random()
    if kind < 0.15:
        return Operand(array.tolist(), objects, "list")
    if kind < 0.25 and shape == ():
        return Operand(int(array), objects, "int")
    if kind < 0.3:
        return Operand(objects, objects, "object integers")
    return Operand(array, objects, "array of int64")


SETTINGS: list[tuple[int, int, str, int | None]] = [
    (7681, 4, "toy-n8", None),
    (7681, 4, "toy-n8", None),
    (7681, 4, "toy-n8", None),
    (257, 4, "toy-n5", None),
    (65537, 9, "n15-t65537-boot", 8),
    (65537, 0, "", None),
    (65537, 1, "", None),
    (65537, 2, "", None),
    (65537, 3, "", None),
    (786433, 1, "", None),
    (257, 2, "", None),
    (257**2, 2, "", None),
    (4293918721, 2, "", None),
]
# Scalars in products up to which no level is taken.
FREE = 16


class Draft:
    """A program under construction, with its depth by the pages."""

    def __init__(self, rng: Rng, setting: Setting) -> None:
        self.rng = rng
        self.setting = setting
        self.inputs: list[Operand] = []
        self.constants: dict[str, Operand] = {}
        self.steps: list[Step] = []
        self.values: list[Objects] = []
        self.depths: list[int] = []
        self.summed: list[bool] = []
        self.promised = True

    def constant(self, shape: tuple[int, ...]) -> str:
        """A plain operand."""
        name = f"k{len(self.constants)}"
        item = _operand(self.rng, shape, self.setting, plain=True)
        self.constants[name] = item
        simple = item.plain is not None and item.what not in ("floats", "huge integers", "object integers")
        self.promised &= simple and all(abs(int(n)) < self.setting.t for n in item.plain.flat)  # type: ignore[union-attr]
        return name

    def add(self, text: str, depth: int, *, summed: bool = False) -> bool:
        """A line, unless Python refuses it."""
        names: dict[str, Any] = {"np": np, **CLEAR}
        names |= {f"r{i}": value for i, value in enumerate(self.values)}
        names |= {name: item.plain for name, item in self.constants.items()}
        found = attempt(lambda: np.asarray(eval(text, names), dtype=object))
        if found.error is not None or found.value.size == 0 or found.value.size > 3000:
            return False
        self.steps.append(Step(len(self.values), text))
        self.values.append(_reduced(found.value, self.setting))
        self.depths.append(depth)
        self.summed.append(summed)
        return True

    def after(self, *registers: int) -> int:
        """The depth before a product of these: a sum with a product after it takes a level."""
        return max(self.depths[i] + self.summed[i] for i in registers)


def _step(d: Draft) -> None:
    rng = d.rng
    a = len(d.values) - 1 if rng.random() < 0.6 else int(rng.integers(len(d.values)))
    shape, depth = d.values[a].shape, d.depths[a]
    kind = str(
        rng.choice(
            ["+", "-", "*", "neg", "power", "square", "sum", "matmul", "rotate", "swap", "poly", "shape"],
            p=[0.14, 0.1, 0.2, 0.04, 0.06, 0.06, 0.12, 0.1, 0.05, 0.03, 0.05, 0.05],
        )
    )
    if kind in "+-*":
        same = [i for i, v in enumerate(d.values) if v.shape == shape or v.size == 1]
        after = d.after(a)
        summed = d.summed[a] and kind != "*"
        if rng.random() < 0.5:
            b = int(rng.choice(same))
            left, right = f"r{a}", f"r{b}"
            after, depth = d.after(a, b), max(depth, d.depths[b])
            summed |= d.summed[b] and kind != "*"
        else:
            around = _compatible(rng, shape) if rng.random() < 0.6 else ()
            left, right = f"r{a}", d.constant(around)
            if len(around) > len(shape):
                d.promised = False
        if rng.random() < 0.5:
            left, right = right, left
        names = {"+": "np.add", "-": "np.subtract", "*": "np.multiply"}
        text = f"{left} {kind} {right}" if rng.random() < 0.8 else f"{names[kind]}({left}, {right})"
        d.add(text, after + 1 if kind == "*" else depth, summed=summed)
    elif kind == "neg":
        d.add(str(rng.choice([f"-r{a}", f"+r{a}", f"np.negative(r{a})"])), depth, summed=d.summed[a])
    elif kind == "power":
        k = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 16]))
        d.add(f"r{a} ** {k}", d.after(a) + int(np.ceil(np.log2(k))), summed=d.summed[a] and k == 1)
    elif kind == "square":
        d.add(f"square(r{a})", d.after(a) + 1)
    elif kind == "sum":
        text = f"total(r{a})"
        d.add(text, depth, summed=d.values[a].size > 1 or d.summed[a])
    elif kind == "matmul":
        _matmul(d, a)
    elif kind == "rotate":
        d.add(f"rotate(r{a}, {int(rng.integers(-9, 9))})", depth, summed=d.summed[a])
        d.promised = False
    elif kind == "swap":
        d.add(f"swap_rows(r{a})", depth, summed=d.summed[a])
        d.promised = False
    elif kind == "poly":
        degree = int(rng.integers(0, 9))
        coefficients = [int(c) for c in rng.integers(-5, 6, degree + 1)]
        if rng.random() < 0.2:
            coefficients[-1] = 0
        taken = degree.bit_length()
        d.add(f"polynomial(r{a}, {coefficients})", d.after(a) + taken)
    else:
        text = str(rng.choice([f"r{a}.reshape(-1)", f"r{a}.ravel()", f"np.reshape(r{a}, (1, -1))"]))
        d.add(text, depth, summed=d.summed[a])


def _matmul(d: Draft, a: int) -> None:
    rng, value = d.rng, d.values[a]
    if value.ndim == 0:
        return
    if value.ndim == 1 and rng.random() < 0.3:
        same = [i for i, v in enumerate(d.values) if v.shape == value.shape]
        b = int(rng.choice(same))
        d.add(f"r{a} @ r{b}", d.after(a, b) + 1, summed=True)
        return
    inner = int(value.shape[-1])
    shape = (inner, int(rng.integers(1, 6))) if rng.random() < 0.7 else (inner,)
    if rng.random() < 0.5:
        outer = int(value.shape[-2] if value.ndim > 1 else inner)
        left, right = d.constant((int(rng.integers(1, 6)), outer)), f"r{a}"
    else:
        left, right = f"r{a}", d.constant(shape)
    form = str(rng.choice(["{} @ {}", "np.dot({}, {})", "np.matmul({}, {})"]))
    d.add(form.format(left, right), d.after(a) + 1, summed=True)
    d.promised &= value.ndim == 1


def draw(rng: Rng) -> Case:
    """Any program."""
    t, depth, preset, log_n = SETTINGS[rng.integers(len(SETTINGS))]
    scheme = str(rng.choice(["bgv", "bfv"]))
    setting = Setting(t, depth, scheme, bool(rng.random() < 0.7), preset, log_n)
    draft = Draft(rng, setting)
    for i in range(int(rng.choice([1, 1, 2, 3]))):
        if i == 0 or rng.random() < 0.3:
            axes = int(rng.choice([0, 1, 1, 2, 2, 3]))
            shape = tuple(int(n) for n in rng.integers(1, 9, axes))
            if rng.random() < 0.15:
                shape = (2, int(2 ** rng.integers(1, 8)))
            if rng.random() < 0.1:
                shape = (int(rng.integers(100, 2000)),)
        item = _operand(rng, shape, setting, plain=False)
        draft.inputs.append(item)
        if item.plain is None or item.what in ("floats", "object integers") or _outside(item.plain, setting):
            draft.promised = False
        draft.values.append(np.asarray(item.plain if item.plain is not None else item.given, dtype=object))
        draft.depths.append(0)
        draft.summed.append(False)
    for _ in range(int(rng.integers(1, 8))):
        _step(draft)
        if max(draft.depths) > setting.depth + 1:
            break
    output = len(draft.values) - 1
    promised = draft.promised and max(draft.depths) <= setting.depth
    case = IntegerCase(
        setting, tuple(draft.inputs), draft.constants, tuple(draft.steps), output, promised
    )
    return case.trimmed()


def draw_modulus(rng: Rng) -> Case:
    """A context of any modulus and depth, and one product in it if it has a level."""
    kind = rng.random()
    t = int(rng.choice([2, 3, 17, 97, 257, 12289, 40961, 65537, 114689, 786433, 1032193, 2**16, 2**32]))
    if kind < 0.4:
        t = int(rng.integers(2, 2 ** int(rng.integers(3, 40))))
    setting = Setting(t, int(rng.integers(0, 3)), str(rng.choice(["bgv", "bfv"])), bool(rng.integers(0, 2)))
    high = max(1, (t - 1) // 2)
    x = rng.integers(0, high, 5, endpoint=True)
    item = Operand(x, np.asarray(x, dtype=object), "array of int64")
    text = "r0 * r0" if setting.depth else "r0 + r0"
    return ModulusCase(setting, (item,), {}, (Step(1, text),), 1, False)


class ModulusCase(IntegerCase):
    """A program whose context may be refused, and whose explanation is read."""

    def _encrypted(self) -> npt.NDArray[np.int64]:
        setting = self.setting
        ctx = sudare.IntegerContext(
            setting.t, setting.depth, scheme=setting.scheme, signed=setting.signed
        )
        explained = attempt(ctx.explain)
        if explained.error is not None:
            raise AssertionError(f"a context that is made is not explained: {explained.error}")
        said = explained.value
        if said.levels < setting.depth or str(said.t) not in str(said):
            raise AssertionError(f"explain says {said}")
        x = ctx.encrypt(self.inputs[0].given)
        return ctx.decrypt(x * x if setting.depth else x + x)


GENERATORS = [
    Generator(
        "integers",
        draw,
        (
            "depths that do not cover what pages count",
            "types, orders and containers of operands",
            "errors of other packages",
        ),
        share=1.5,
    ),
    Generator(
        "moduli",
        draw_modulus,
        ("depths that do not cover what pages count", "errors of other packages"),
        share=0.1,
    ),
]
