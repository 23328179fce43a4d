"""Compares random programs of encrypted arrays with NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import sudare

from .core import Case, Expected, Generator, Outcome, Rng, Verdict, attempt, judge
from .values import Floats, contained, magnitude, numbers, odd, ordered, typed

FACTOR = 2.0**6
"""Maximum error of a result, in stated standard deviations."""

# Levels of small rings by name, and bits of precision after bootstrapping.
LEVELED = {"n13": 3, "n14": 7, "n15": 15, "n16-d24": 24, "n16": 33}
BOOTSTRAPPED = {"n16-boot-high": 36.0, "n16-boot-real": 18.0, "n16-boot": 17.0, "n16-boot-fast": 9.0, "n15-boot": 13.0, "n15-boot-net": 9.0}
SMALL = 10
"""`log2` of the degree of small rings."""


@dataclass(frozen=True)
class Where:
    """The context that a program runs in."""

    kind: str
    """`preset`, `depth`, or `planned`."""
    told: str = ""
    """Source of the input ranges of a planned context: `calibration`, `ranges`, or none."""
    name: str = ""
    depth: int = 0
    bits: float | None = None
    """Bits of precision after bootstrapping, for sets that bootstrap."""

    @property
    def levels(self) -> int | None:
        """Levels of new arrays, `None` if unlimited."""
        if self.kind == "planned" or self.bits is not None:
            return None
        return self.depth if self.kind == "depth" else LEVELED[self.name]

    def text(self) -> str:
        """As Python has it."""
        if self.kind == "preset":
            return f"sudare.Context.preset({self.name!r}, insecure_log_n={SMALL}, mode=mode)"
        if self.kind == "depth":
            return f"sudare.Context({self.depth}, mode=mode)"
        told = {"calibration": ", calibration=inputs", "ranges": ", ranges=those of inputs"}
        return f"sudare.Context.for_program(program, shapes{told.get(self.told, '')}, mode=mode)"

    def make(self, mode: Any, program: Callable[..., Any], inputs: list[Floats]) -> sudare.Context:
        """Makes the context, and caches it if it serves any program."""
        if self.kind == "planned":
            options: dict[str, Any] = {"mode": mode}
            if self.told == "calibration":
                options["calibration"] = inputs if len(inputs) != 1 else inputs[0]
            elif self.told == "ranges":
                options["ranges"] = [(float(x.min()), float(x.max())) for x in inputs]
            return sudare.Context.for_program(program, [x.shape for x in inputs], **options)
        return _shared(self.kind, self.name, self.depth, mode)


@cache
def _shared(kind: str, name: str, depth: int, mode: Any) -> sudare.Context:
    if kind == "preset":
        return sudare.Context.preset(name, insecure_log_n=SMALL, mode=mode)
    return sudare.Context(depth, mode=mode)


@dataclass(frozen=True)
class Function:
    """A function of encrypted numbers, with the arguments that make it."""

    name: str
    interval: tuple[float, float]
    options: tuple[tuple[str, float], ...]

    def text(self) -> str:
        """As Python has it."""
        options = "".join(f", {name}={value!r}" for name, value in self.options)
        return f"sudare.functions.{self.name}({self.interval!r}{options})"

    def make(self) -> Any:
        """The function, fitted once."""
        return _fitted(self)


@cache
def _fitted(function: Function) -> Any:
    make = getattr(sudare.functions, function.name)
    return make(function.interval, **dict(function.options))


@dataclass(frozen=True)
class Trial:
    """Errors of functions in one run of the reference."""

    kind: int | None = None
    """Directions of errors: equal for all numbers (0), equal for equal numbers (1), independent (2), or opposite for
    neighbours along every axis (3). `None` draws one of the first three for each function."""
    turn: float = 1.0
    """1 for the drawn directions, -1 for their opposites. Smaller values make smaller errors."""
    clipped: bool = True
    """True if numbers outside an interval count as its ends."""


# One kind for all functions, a kind for each function, and smaller errors, each with its opposite.
# Numbers inside a gap may have any value in between, so a trial without errors is useful, too.
TRIALS = [
    *(Trial(kind, turn) for kind in (0, 1, 2, None, None, None) for turn in (1.0, -1.0)),
    *(Trial(kind, turn) for kind in (0, 2) for turn in (0.5, 0.0, -0.5)),
    # Differences of two neighbours, which errors drawn at random often leave as they are.
    *(Trial(3, turn) for turn in (1.0, -1.0)),
]


class Reference:
    """A function in the clear, with its stated error in a drawn direction."""

    def __init__(
        self, function: Function, rng: Rng | None, outside: list[bool], trial: Trial | None = None
    ) -> None:
        self._made = function.make()
        self._function = function
        self._rng = rng
        self._outside = outside
        self._trial = trial or Trial()

    def _signs(self, x: list[Floats]) -> Floats:
        """Draws directions: equal for all numbers, equal for equal numbers, or independent. Sums and differences
        amplify one kind or the other."""
        assert self._rng is not None
        shape = np.broadcast_shapes(*(v.shape for v in x))
        kind = self._rng.integers(0, 3) if self._trial.kind is None else self._trial.kind
        if kind == 0:
            return np.full(shape, self._rng.choice([-1.0, 1.0]))
        if kind == 3:
            return np.asarray(1.0 - 2.0 * (np.indices(shape).sum(axis=0) % 2))
        if kind == 1:
            flat = np.stack([np.broadcast_to(v, shape).ravel() for v in x])
            different, places = np.unique(flat, axis=1, return_inverse=True)
            signs = self._rng.choice([-1.0, 1.0], different.shape[1])
            return np.asarray(signs[places.ravel()].reshape(shape))
        return self._rng.choice([-1.0, 1.0], shape)

    def __call__(self, *operands: Any) -> Floats:
        x = [np.asarray(operand, dtype=np.float64) for operand in operands]
        start, end = self._function.interval
        slack = 1e-9 * (end - start)
        if any(((v < start - slack) | (v > end + slack)).any() for v in x):
            self._outside.append(True)
        if self._trial.clipped:
            # Numbers that rounding moved over the edge.
            x = [np.clip(v, start, end) for v in x]
        found = np.asarray(self._made.exact(*x), dtype=np.float64)
        if self._rng is None:
            return found
        gap = dict(self._function.options).get("gap", 0.0)
        direction = self._trial.turn * self._signs(x)
        off = found + self._made.max_error * direction
        if gap:
            difference = x[0] - x[1] if len(x) == 2 else x[0]
            low = -1.0 if self._function.name == "sign" else 0.0
            between = (1 + direction) / 2 * (1 - low) + low
            off = np.where(np.abs(difference) < gap * (1 + 1e-6), between, off)
        return np.asarray(off)


@dataclass(frozen=True)
class Input:
    """An argument of a program."""

    given: Any
    """The argument of `encrypt`."""
    plain: Floats
    """The numbers in it."""
    what: str
    declared: tuple[float, float] | None = None
    """The range that is declared for it."""

    @property
    def options(self) -> dict[str, float]:
        """Returns further arguments of `encrypt`."""
        return {} if self.declared is None else dict(zip(("low", "high"), self.declared, strict=True))

    def impossible(self) -> bool:
        """Returns whether numbers leave the declared range."""
        if self.declared is None:
            return False
        low, high = self.declared
        return bool((self.plain < low).any() or (self.plain > high).any())


@dataclass(frozen=True)
class Constant:
    """A plain operand."""

    given: Any
    plain: Any
    what: str


@dataclass(frozen=True)
class Step:
    """One line of a program."""

    target: int
    text: str
    """An expression of registers `r0`, constants `k0` and functions `f0`."""


@dataclass(frozen=True)
class ArrayCase(Case):
    """A program, its arguments and its context."""

    inputs: tuple[Input, ...]
    constants: dict[str, Constant]
    functions: dict[str, Function]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    where: Where
    promised: str | None = None
    """The page that promises this program."""

    def describe(self) -> str:
        lines = []
        for i, item in enumerate(self.inputs):
            more = "".join(f", {name}={value!r}" for name, value in item.options.items())
            lines.append(f"r{i} = ctx.encrypt({_show(item.given)}{more})  # {item.what}")
        for name, constant in self.constants.items():
            lines.append(f"{name} = {_show(constant.given)}  # {constant.what}")
        for name, function in self.functions.items():
            lines.append(f"{name} = {function.text()}")
        lines += [f"r{step.target} = {step.text}" for step in self.steps]
        lines.append(f"return {', '.join(f'r{i}' for i in self.outputs)}")
        return "\n".join([f"ctx = {self.where.text()}", *lines])

    def program(self, *arguments: Any) -> list[Any]:
        """The program on encrypted arrays."""
        names: dict[str, Any] = {"np": np, "within": lambda x, low, high: x.within(low, high)}
        names |= {name: constant.given for name, constant in self.constants.items()}
        names |= {name: function.make() for name, function in self.functions.items()}
        return self._evaluate(names, arguments)

    def reference(
        self,
        rng: Rng | None,
        outside: list[bool],
        peaks: list[float],
        trial: Trial | None = None,
    ) -> list[Floats]:
        """Runs the program by NumPy. With `rng`, functions have errors."""
        if any(item.impossible() for item in self.inputs):
            raise ValueError("numbers outside of their range")
        names: dict[str, Any] = {"np": np, "within": lambda x, low, high: x}
        for name, constant in self.constants.items():
            if constant.plain is None:
                raise TypeError(f"{constant.what} has no numbers")
            names[name] = constant.plain
        for name, function in self.functions.items():
            names[name] = Reference(function, rng, outside, trial)
        arguments = [item.plain for item in self.inputs]
        with np.errstate(all="ignore"):
            found = self._evaluate(names, arguments, peaks)
        return [np.asarray(value, dtype=np.float64) for value in found]

    def _evaluate(
        self, names: dict[str, Any], arguments: Any, peaks: list[float] | None = None
    ) -> list[Any]:
        for i, argument in enumerate(arguments):
            names[f"r{i}"] = argument
        for step in self.steps:
            value = eval(step.text, names)
            if peaks is not None:
                value = np.asarray(value, dtype=np.float64)
                if not np.isfinite(value).all() or value.size == 0:
                    raise ValueError("not finite, or empty")
                peaks.append(float(np.abs(value).max()))
            names[f"r{step.target}"] = value
        return [names[f"r{i}"] for i in self.outputs]

    def run(self, *, execute: bool) -> Verdict:
        outside: list[bool] = []
        peaks = [float(np.abs(item.plain).max()) for item in self.inputs]
        clear = attempt(lambda: self.reference(None, outside, peaks))
        modes = ["simulate", "execute"] if execute else ["simulate"]
        outcomes: dict[str, Outcome] = {}
        stated: list[float | None] = []
        ranges: list[tuple[float | None, float | None]] = []
        for mode in modes:
            outcomes[mode] = attempt(lambda mode=mode: self._in(mode, stated, ranges))  # type: ignore[misc]
        if clear.error is not None:
            return judge(outcomes, None)
        slack = self._slack(clear.value, stated, max(peaks), outside)
        for k, right in enumerate(clear.value):
            parts = {
                way: Outcome(outcome.value[k]) if outcome.error is None else outcome
                for way, outcome in outcomes.items()
            }
            expected = {way: Expected(right, slack[k]) for way in parts}
            verdict = judge(parts, expected, must=self.promised)
            if verdict.reason == "wrong value" and outside:
                # A broken promise. Some functions are still right there.
                if self._right_outside(k, parts, stated, max(peaks)):
                    continue
                return Verdict("finding", "wrong value outside of an interval", verdict.detail)
            if verdict.kind != "right":
                return verdict
            if len(ranges) > k and (wrong := _outside(ranges[k], right, slack[k])):
                return Verdict("finding", "a range that does not hold", wrong)
            if execute and len(stated) > k and (error := stated[k]) is not None:
                found = float(np.abs(outcomes["execute"].value[k] - right).max())
                if not self._coarse() and _useless(error, found, max(peaks)):
                    detail = f"2^{error:.1f}, found {found:.3g}, numbers up to {max(peaks):.3g}"
                    return Verdict("finding", "useless stated error", detail)
        return Verdict("right", "right")

    def _coarse(self) -> bool:
        """Returns whether an interval is too wide to keep enough bits when scaled to (-1, 1)."""
        return any(f.interval[1] - f.interval[0] > 2.0**40 for f in self.functions.values())

    def _right_outside(
        self, k: int, parts: dict[str, Outcome], stated: list[float | None], peak: float
    ) -> bool:
        """Returns whether result `k` is right if functions continue outside their intervals."""
        unclipped = attempt(lambda: self.reference(None, [], [], Trial(clipped=False)))
        if unclipped.error is not None:
            return False
        slack = self._slack(unclipped.value, stated, peak, [], clipped=False)
        expected = {way: Expected(unclipped.value[k], slack[k]) for way in parts}
        return judge(parts, expected).kind == "right"

    def _in(
        self,
        mode: str,
        stated: list[float | None],
        ranges: list[tuple[float | None, float | None]],
    ) -> list[Floats]:
        ctx = self.where.make(mode, self.program, [item.plain for item in self.inputs])
        arguments = [ctx.encrypt(item.given, **item.options) for item in self.inputs]
        results = self.program(*arguments)
        found = [ctx.decrypt(result) for result in results]
        if mode == "simulate":
            stated += [result.log2_error for result in results]
            ranges += [(result.low, result.high) for result in results]
        return found

    def _slack(
        self,
        clear: list[Floats],
        stated: list[float | None],
        peak: float,
        outside: list[bool],
        *,
        clipped: bool = True,
    ) -> list[npt.NDArray[Any]]:
        """Returns the largest allowed error of each result."""
        slack = [1e-9 * np.abs(value) + 2.0**-48 * peak for value in clear]
        for k, error in enumerate(stated):
            if error is not None:
                # The stated error is for the whole ciphertext. A single large element may have a larger one.
                factor = max(FACTOR, 16 * np.sqrt(min(clear[k].size, 2**SMALL)))
                slack[k] = slack[k] + factor * 2.0 ** min(error, 1000.0)
        if self.where.bits is not None:
            # The error of bootstrapping is not stated. The program amplifies it.
            noise = 2.0 ** -(self.where.bits - 6) * max(peak, 1.0) * 4 ** len(self.steps)
            slack = [part + noise for part in slack]
        if self.functions:
            worst = [np.zeros(value.shape) for value in clear]
            for number, trial in enumerate(TRIALS):
                # The same for a trial and its opposite.
                rng = np.random.default_rng(number // 2)
                trial = replace(trial, clipped=clipped)
                off = attempt(lambda rng=rng, trial=trial: self.reference(rng, outside, [], trial))  # type: ignore[misc]
                if off.error is None:
                    pairs = zip(worst, off.value, clear, strict=True)
                    worst = [np.maximum(part, np.abs(other - value)) for part, other, value in pairs]
            slack = [part + 3 * extra for part, extra in zip(slack, worst, strict=True)]
        return slack

    def smaller(self) -> Iterator[Case]:
        first = len(self.inputs)
        # Earlier results.
        if len(self.outputs) > 1:
            for output in self.outputs:
                yield replace(self, outputs=(output,))._trimmed()
        last = max(self.outputs)
        for step in self.steps:
            if step.target < last:
                yield replace(self, outputs=(step.target,))._trimmed()
        # No promises.
        for i, item in enumerate(self.inputs):
            if item.declared is not None and not item.impossible():
                free = replace(item, declared=None)
                yield replace(self, inputs=(*self.inputs[:i], free, *self.inputs[i + 1 :]))
        # Plain containers.
        for i, item in enumerate(self.inputs):
            if item.what != "array of float64" and item.given is not item.plain:
                plain = replace(item, given=item.plain, what="array of float64")
                yield replace(self, inputs=(*self.inputs[:i], plain, *self.inputs[i + 1 :]))
        for name, constant in self.constants.items():
            if constant.plain is not None and constant.given is not constant.plain:
                simple = Constant(constant.plain, constant.plain, "plain")
                yield replace(self, constants={**self.constants, name: simple})
        # Rounded numbers.
        for i, item in enumerate(self.inputs[:first]):
            size = float(np.abs(item.plain).max())
            if size and item.given is item.plain:
                digits = 1 - int(np.floor(np.log10(size)))
                rounded = np.round(item.plain, digits)
                if not np.array_equal(rounded, item.plain):
                    simpler = replace(item, given=rounded, plain=rounded)
                    yield replace(
                        self, inputs=(*self.inputs[:i], simpler, *self.inputs[i + 1 :])
                    )

    def _trimmed(self) -> ArrayCase:
        """Returns the program without steps that no output needs. Inputs stay."""
        needed = {f"r{i}" for i in self.outputs}
        kept: list[Step] = []
        for step in reversed(self.steps):
            if f"r{step.target}" in needed:
                kept.append(step)
                needed |= set(re.findall(r"\b[rkf]\d+\b", step.text))
        constants = {name: value for name, value in self.constants.items() if name in needed}
        functions = {name: value for name, value in self.functions.items() if name in needed}
        return replace(
            self, steps=tuple(reversed(kept)), constants=constants, functions=functions
        )


def _useless(log2_error: float, found: float, peak: float) -> bool:
    """Returns whether a stated error is useless: far above the real one and all numbers."""
    largest = max(log2_error - 16, 0.0)
    return bool(log2_error > np.log2(max(peak, 1.0)) + 6 and found < 2.0**largest)


def _outside(
    ends: tuple[float | None, float | None], right: Floats, slack: npt.NDArray[Any]
) -> str | None:
    """Returns the element that leaves the known range of its array."""
    low, high = ends
    if low is not None and ((right < low - slack) & (low > -np.inf)).any():
        return f"an element is {right.min():.6g}, and none is lower than {low:.6g}"
    if high is not None and ((right > high + slack) & (high < np.inf)).any():
        return f"an element is {right.max():.6g}, and none is higher than {high:.6g}"
    return None


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        head = "" if value.size <= 12 else "..."
        flat = value.ravel()[:12].tolist()
        return f"np.array({flat}{head}, dtype={str(value.dtype)!r}) of shape {value.shape}"
    text = repr(value).replace("\n", " ")
    return text if len(text) < 200 else text[:200] + "..."


# Drawing.


class Draft:
    """A program under construction, with its numbers by NumPy."""

    def __init__(self, rng: Rng, where: Where) -> None:
        self.rng = rng
        self.where = where
        self.inputs: list[Input] = []
        self.constants: dict[str, Constant] = {}
        self.functions: dict[str, Function] = {}
        self.steps: list[Step] = []
        self.values: list[Floats] = []
        self.depths: list[int] = []

    def pick(self) -> int:
        """Draws a register, usually a late one."""
        if self.rng.random() < 0.6:
            return len(self.values) - 1
        return int(self.rng.integers(len(self.values)))

    def constant(self, shape: tuple[int, ...], *, odd_share: float = 0.05) -> str:
        """A plain operand of this shape."""
        rng = self.rng
        name = f"k{len(self.constants)}"
        if rng.random() < odd_share and shape:
            given, plain, what = odd(rng, shape)
        else:
            array = ordered(rng, typed(rng, numbers(rng, shape, magnitude(rng))))
            plain = np.asarray(array, dtype=np.float64)
            given, what = contained(rng, array)
            what = f"{what} of {array.dtype}"
            if not shape and rng.random() < 0.5:
                given = array.item()
        self.constants[name] = Constant(given, plain, what)
        return name

    def function(self, function: Function) -> str:
        """Draws a function that can be fitted."""
        name = f"f{len(self.functions)}"
        self.functions[name] = function
        return name

    def add(self, text: str, depth: int) -> bool:
        """Adds a line, unless NumPy refuses it or its numbers are not finite. `depth` is the depth of its result."""
        names: dict[str, Any] = {"np": np, "within": lambda x, low, high: x}
        names |= {f"r{i}": value for i, value in enumerate(self.values)}
        names |= {name: constant.plain for name, constant in self.constants.items()}
        names |= {name: Reference(f, None, []) for name, f in self.functions.items()}
        with np.errstate(all="ignore"):
            found = attempt(lambda: np.asarray(eval(text, names), dtype=np.float64))
        refused = found.error is not None or not found.value.size
        if refused or not np.isfinite(found.value).all() or found.value.size > 4000:
            if self.rng.random() < 0.9:
                return False
            # Now and then, so that it is refused.
            self.steps.append(Step(len(self.values), text))
            self.values.append(np.full((), np.nan))
            self.depths.append(depth)
            return False
        self.steps.append(Step(len(self.values), text))
        self.values.append(found.value)
        self.depths.append(depth)
        return True


def _shape(rng: Rng) -> tuple[int, ...]:
    axes = int(rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 4]))
    if rng.random() < 0.06:
        # More than a ciphertext of a small ring has room for.
        return ((700,), (30, 40), (3, 600), (2, 5, 128))[rng.integers(4)]
    return tuple(int(n) for n in rng.integers(1, 8 if axes > 1 else 40, axes))


def _compatible(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draws a shape that broadcasts with this one."""
    sizes = [1 if rng.random() < 0.3 else n for n in shape]
    sizes = sizes[int(rng.integers(0, len(sizes) + 1)) if rng.random() < 0.3 else 0 :]
    if rng.random() < 0.1 and len(sizes) < 4:
        sizes = [int(rng.integers(1, 4)), *sizes]
    return tuple(sizes)


def _axis(rng: Rng, ndim: int) -> str:
    if ndim == 0 or rng.random() < 0.3:
        return "None"
    if rng.random() < 0.7:
        return str(int(rng.integers(-ndim, ndim)))
    count = int(rng.integers(1, ndim + 1))
    return str(tuple(int(i) for i in rng.permutation(ndim)[:count]))


def _elementwise(d: Draft, a: int) -> None:
    rng, depth = d.rng, d.depths[a]
    op = str(rng.choice(["+", "-", "*"]))
    names = {"+": "np.add", "-": "np.subtract", "*": "np.multiply"}
    fitting = [i for i, v in enumerate(d.values) if _broadcast(v.shape, d.values[a].shape)]
    if rng.random() < 0.5 and fitting:
        b = int(rng.choice(fitting))
        left, right, other = f"r{a}", f"r{b}", d.depths[b]
    else:
        left, right, other = f"r{a}", d.constant(_compatible(rng, d.values[a].shape)), 0
        if rng.random() < 0.5:
            left, right = right, left
    text = f"{left} {op} {right}" if rng.random() < 0.8 else f"{names[op]}({left}, {right})"
    d.add(text, max(depth, other) + (op == "*"))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _unary(d: Draft, a: int) -> None:
    rng = d.rng
    if rng.random() < 0.4:
        divisor = d.constant(_compatible(rng, d.values[a].shape) if rng.random() < 0.3 else ())
        text = f"r{a} / {divisor}" if rng.random() < 0.7 else f"np.divide(r{a}, {divisor})"
        d.add(text, d.depths[a] + 1)
        return
    d.add(str(rng.choice([f"-r{a}", f"+r{a}", f"np.negative(r{a})", f"np.positive(r{a})"])), d.depths[a])


def _power(d: Draft, a: int) -> None:
    rng = d.rng
    exponent = int(rng.choice([1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31]))
    written = str(rng.choice([f"{exponent}", f"{float(exponent)}", f"np.int64({exponent})"]))
    choices = [f"r{a} ** {written}"] * 3 + [f"np.power(r{a}, {written})"]
    if exponent == 2:
        choices.append(f"np.square(r{a})")
    if exponent == 3:
        choices.append(f"r{a} * r{a} * r{a}")
    d.add(str(rng.choice(choices)), d.depths[a] + int(np.ceil(np.log2(exponent))))


def _reduction(d: Draft, a: int) -> None:
    rng, ndim = d.rng, d.values[a].ndim
    name = str(rng.choice(["sum", "mean", "var"]))
    axis, keep = _axis(rng, ndim), bool(rng.integers(0, 2))
    options = f"axis={axis}, keepdims={keep}" if rng.random() < 0.8 else f"axis={axis}"
    if name == "var":
        options += f", ddof={int(rng.integers(0, 3))}" if rng.random() < 0.5 else ""
    kind = rng.random()
    text = f"r{a}.{name}({options})" if kind < 0.6 else f"np.{name}(r{a}, {options})"
    if kind > 0.95 and name == "sum":
        text = f"np.add.reduce(r{a}, axis={axis}, keepdims={keep})"
    d.add(text, d.depths[a] + (2 if name == "var" else 1))


def _centred(d: Draft, a: int) -> None:
    """Draws differences from means, as in statistics."""
    rng, ndim = d.rng, d.values[a].ndim
    axis = _axis(rng, ndim)
    middle = f"r{a}.mean(axis={axis}, keepdims=True)"
    scale = str(rng.choice(["", "", " * 0.25", " / 3"]))
    if d.add(f"(r{a} - {middle}){scale}", d.depths[a] + 1 + bool(scale)):
        if rng.random() < 0.6:
            _power(d, len(d.values) - 1)
        if rng.random() < 0.3:
            _reduction(d, len(d.values) - 1)


def _product(d: Draft, a: int) -> None:
    rng, value = d.rng, d.values[a]
    if value.ndim == 0 or value.size > 600:
        return
    inner, stacked = int(value.shape[-1]), rng.random() < 0.15
    fitting = [i for i, v in enumerate(d.values) if v.ndim and v.ndim < 3 and v.shape[0] == inner]
    if rng.random() < 0.3 and fitting:
        b = int(rng.choice(fitting))
        left, right, depth = f"r{a}", f"r{b}", max(d.depths[a], d.depths[b])
    elif rng.random() < 0.5:
        shape: tuple[int, ...] = [(inner,), (inner, int(rng.integers(1, 6)))][rng.integers(2)]
        shape = (int(rng.integers(1, 3)), *shape) if stacked and len(shape) == 2 else shape
        left, right, depth = f"r{a}", d.constant(shape), d.depths[a]
    else:
        outer = int(value.shape[-2] if value.ndim > 1 else value.shape[0])
        shape = [(outer,), (int(rng.integers(1, 6)), outer)][rng.integers(2)]
        left, right, depth = d.constant(shape), f"r{a}", d.depths[a]
    encrypted = left if left.startswith("r") else right
    text = str(rng.choice([f"{left} @ {right}", f"np.dot({left}, {right})", f"np.matmul({left}, {right})"]))
    if left == encrypted and rng.random() < 0.2:
        text = f"{left}.dot({right})"
    d.add(text, depth + 2)


def _shaped(d: Draft, a: int) -> None:
    rng, value = d.rng, d.values[a]
    divisors = [n for n in range(1, value.size + 1) if value.size % n == 0]
    n = int(rng.choice(divisors))
    order = tuple(int(i) for i in rng.permutation(value.ndim))
    options = [
        f"r{a}.reshape({n}, -1)",
        f"r{a}.reshape(({value.size // n}, {n}))",
        f"np.reshape(r{a}, (-1,))",
        f"r{a}.ravel()",
        f"np.ravel(r{a})",
        f"r{a}.T",
        f"r{a}.transpose({order})",
        f"np.transpose(r{a}, {order})",
        f"np.expand_dims(r{a}, {int(rng.integers(0, value.ndim + 1))})",
        f"np.squeeze(r{a})",
    ]
    d.add(str(rng.choice(options)), d.depths[a] + 1)


def _indexed(d: Draft, a: int) -> None:
    rng, shape = d.rng, d.values[a].shape
    keys: list[str] = []
    for size in shape[: int(rng.integers(0, len(shape) + 1))]:
        kind = rng.random()
        if kind < 0.4:
            index = int(rng.integers(-size, size)) if rng.random() < 0.95 else size
            keys.append(str(index) if rng.random() < 0.8 else f"np.int64({index})")
        elif kind < 0.9:
            start, stop = sorted(int(i) for i in rng.integers(0, size + 1, 2))
            texts = [f"{start}:{stop}", f"{start}:", f":{stop}", ":", f"-{stop}:", f"{start}:{stop + 5}"]
            keys.append(str(rng.choice(texts)))
        elif kind < 0.95:
            keys.append(str(rng.choice(["::2", "::-1", "[0]", "True", "1.0"])))
        else:
            keys += ["None", ":"]
    if rng.random() < 0.2 and keys:
        keys.insert(int(rng.integers(0, len(keys) + 1)), "...")
    if keys:
        d.add(f"r{a}[{', '.join(keys)}]", d.depths[a] + 1)


ANY = ["exp", "sigmoid", "tanh", "relu", "abs"]
POSITIVE = ["inverse", "log", "sqrt"]
GAPS = [0.2, 0.05, 0.01, 1e-3, 1e-4, 1e-6]


def _bound(size: float, up: bool) -> float:
    """A round number beyond this one."""
    step = 2.0 ** np.floor(np.log2(abs(size) + 1e-12) - 2)
    return float((np.ceil if up else np.floor)(size / step) * step)


def _options(rng: Rng, name: str, gap: float | None) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = [] if gap is None else [("gap", gap)]
    kind = rng.random()
    if kind < 0.4:
        found.append(("degree", int(rng.choice([1, 3, 5, 7, 15, 31, 63, 127]))))
    elif kind < 0.9:
        found.append(("precision_bits", int(rng.choice([4, 6, 8, 12, 16, 20, 24, 28]))))
    return tuple(found)


def function_of(rng: Rng, low: float, high: float) -> Function | None:
    """Draws a function of numbers from `low` to `high`, now and then with a smaller interval."""
    low, high = _bound(low, False), _bound(high, True)
    if low == high:
        low, high = low - 1, high + 1
    if rng.random() < 0.05:
        high = low + (high - low) * 0.7
    name = str(rng.choice([*ANY, "sign", "step", *POSITIVE]))
    gap = None
    if name in POSITIVE:
        if high <= 0 or (low <= 0 and name != "sqrt"):
            name = str(rng.choice(ANY))
        elif low < 0:
            name = "relu"
    if name == "exp" and high > 12:
        name = "tanh"
    if name in ("sign", "step"):
        gap = float(rng.choice(GAPS)) * max(abs(low), abs(high))
    function = Function(name, (low, high), _options(rng, name, gap))
    return function if attempt(function.make).error is None else None


def _applied(d: Draft, a: int) -> None:
    value = d.values[a]
    function = function_of(d.rng, float(value.min()), float(value.max()))
    if function is not None and (levels := _room(d, a, function)) is not None:
        name = d.function(function)
        d.add(f"{name}(r{a})", d.depths[a] + levels)


def _room(d: Draft, a: int, function: Function) -> int | None:
    """Returns the levels of a function, if the context probably has them."""
    levels = int(function.make().depth) + 1
    left = 40 if d.where.levels is None else d.where.levels - d.depths[a]
    return levels if levels <= left or d.rng.random() < 0.1 else None


def _promised(d: Draft, a: int) -> None:
    """A promise that holds."""
    value = d.values[a]
    low, high = _bound(float(value.min()), False), _bound(float(value.max()), True)
    margin = 1e-3 * max(high - low, abs(low), abs(high))
    low, high = low - margin, high + margin
    d.add(f"within(r{a}, {low!r}, {high!r})", d.depths[a])


def _paired(d: Draft, a: int) -> None:
    rng, value = d.rng, d.values[a]
    fitting = [i for i, v in enumerate(d.values) if _broadcast(v.shape, value.shape)]
    if rng.random() < 0.5 and fitting:
        other = f"r{int(rng.choice(fitting))}"
        numbers_of = d.values[int(other[1:])]
    else:
        other = f"k{len(d.constants)}"
        numbers_of = rng.uniform(value.min(), value.max() + 1e-9, _compatible(rng, value.shape))
        d.constants[other] = Constant(numbers_of, numbers_of, "array of float64")
    low = _bound(float(min(value.min(), numbers_of.min())), False)
    high = _bound(float(max(value.max(), numbers_of.max())), True)
    if low >= high:
        high = low + 1
    name = str(rng.choice(["maximum", "minimum", "compare"]))
    gap = float(rng.choice(GAPS)) * (high - low) if name == "compare" else None
    function = Function(name, (low, high), _options(rng, name, gap))
    if attempt(function.make).error is not None:
        return
    levels = _room(d, a, function)
    if levels is None:
        return
    called = d.function(function)
    left, right = (f"r{a}", other) if rng.random() < 0.7 else (other, f"r{a}")
    d.add(f"{called}({left}, {right})", d.depths[a] + levels)


STRANGE = [
    "np.sqrt({0})", "np.sort({0})", "np.cumsum({0})", "np.concatenate([{0}, {0}])", "{0} > 0",
    "np.sum({0}, dtype=np.float32)", "np.sum({0}, initial=1.0)", "np.mean({0}, where=True)",
    "abs({0})", "{0} // 2", "{0} % 2", "2 ** {0}", "{0} ** 0", "{0} ** -1", "{0} ** 0.5",
    "1 / {0}", "{0} / 0", "{0} / {0}", "np.add({0}, 1, out=None)",
    "np.outer({0}, {0})", "np.inner({0}, {0})", "np.einsum('...i->...', {0})", "np.std({0})",
    "np.average({0})", "np.vdot({0}, {0})", "np.stack([{0}, {0}])", "np.flip({0})",
    "np.broadcast_to({0}, (2, *np.shape({0})))", "np.clip({0}, -1, 1)", "np.swapaxes({0}, 0, -1)",
    "np.moveaxis({0}, 0, -1)", "np.prod({0})", "np.max({0})", "np.linalg.norm({0})",
    "np.sum({0}, 0, None, None, True)", "np.var({0}, ddof=1.5)", "np.var({0}, axis=0, mean=0)",
    "np.reshape({0}, (-1,), 'F')", "np.ravel({0}, order='F')", "np.where({0} > 0, {0}, 0)",
    "{0} * 1e300", "{0} * 1e-300", "{0} + 1e16", "{0} * 2**100", "{0} + 10**400", "{0} * np.nan",
    "{0} * True", "{0} * None", "{0} * 'a'", "{0} * [1, [2]]", "{0} * 1j", "np.nansum({0})",
    "np.trace({0})", "np.diagonal({0})", "np.tensordot({0}, {0}, 1)", "np.float_power({0}, 2)",
    "np.multiply.reduce({0})", "np.add.accumulate({0})", "np.multiply.outer({0}, {0})",
]  # fmt: skip


def _strange(d: Draft, a: int) -> None:
    d.add(str(d.rng.choice(STRANGE)).format(f"r{a}"), d.depths[a] + 2)


MOVES: list[tuple[Callable[[Draft, int], None], float]] = [
    (_elementwise, 5.0),
    (_unary, 1.5),
    (_power, 2.0),
    (_reduction, 2.0),
    (_centred, 1.2),
    (_product, 2.0),
    (_shaped, 1.5),
    (_indexed, 1.5),
    (_applied, 1.0),
    (_paired, 0.3),
    (_promised, 0.5),
    (_strange, 0.3),
]


def where_of(rng: Rng) -> Where:
    """A context."""
    kind = rng.random()
    if kind < 0.55:
        name = str(rng.choice(list(LEVELED), p=[0.1, 0.2, 0.3, 0.25, 0.15]))
        return Where("preset", name=name, depth=LEVELED[name])
    if kind < 0.65:
        return Where("depth", depth=int(rng.integers(0, 8)))
    if kind < 0.9:
        return Where("planned", told=str(rng.choice(["", "calibration", "ranges"])))
    name = str(rng.choice(list(BOOTSTRAPPED)))
    return Where("preset", name=name, bits=BOOTSTRAPPED[name])


def _input(rng: Rng, shape: tuple[int, ...], size: float) -> Input:
    if rng.random() < 0.02:
        given, plain, what = odd(rng, shape or (3,))
        if plain is not None:
            return Input(given, plain, what)
    declared = None
    array = ordered(rng, typed(rng, numbers(rng, shape, size)))
    given, what = contained(rng, array)
    plain = np.asarray(array, dtype=np.float64)
    if rng.random() < 0.15:
        # Now and then some numbers lie outside.
        widen = float(rng.choice([1.0, 1.5, 4.0, 0.9], p=[0.4, 0.3, 0.2, 0.1]))
        middle, half = (plain.max() + plain.min()) / 2, (plain.max() - plain.min()) / 2 + 1e-12 * size
        declared = (float(middle - widen * half), float(middle + widen * half))
    shown = plain if given is array and array.dtype == np.float64 else given
    return Input(shown, plain, f"{what} of {array.dtype}", declared)


def _start(rng: Rng, where: Where) -> Draft:
    draft = Draft(rng, where)
    size = magnitude(rng)
    if where.bits is not None and rng.random() < 0.8:
        size = min(size, 1.0)
    shape = _shape(rng)
    for i in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if i and rng.random() < 0.5:
            shape = _compatible(rng, shape)
        item = _input(rng, shape, size)
        draft.inputs.append(item)
        draft.values.append(item.plain)
        draft.depths.append(0)
    return draft


def _finish(draft: Draft, promised: str | None = None) -> ArrayCase:
    last = len(draft.values) - 1
    outputs: tuple[int, ...] = (last,)
    if draft.steps and draft.rng.random() < 0.15:
        outputs = (int(draft.rng.integers(0, last + 1)), last)
    case = ArrayCase(
        tuple(draft.inputs),
        draft.constants,
        draft.functions,
        tuple(draft.steps),
        outputs,
        draft.where,
        promised,
    )
    return case._trimmed()


def draw(rng: Rng) -> Case:
    """Any program."""
    where = where_of(rng)
    draft = _start(rng, where)
    weights = np.array([weight for _, weight in MOVES])
    for _ in range(int(rng.integers(1, 7))):
        deepest = max(draft.depths)
        if where.levels is not None and deepest >= where.levels and rng.random() < 0.7:
            break
        move, _ = MOVES[rng.choice(len(MOVES), p=weights / weights.sum())]
        move(draft, draft.pick())
        if draft.values and np.isnan(draft.values[-1]).any():
            break
    return _finish(draft)


def draw_function(rng: Rng) -> Case:
    """Draws one function on its whole interval, ends included, in a ring with enough levels."""
    low, high = sorted(float(rng.choice([-1.0, 1.0])) * magnitude(rng) for _ in range(2))
    if rng.random() < 0.4:
        low, high = -max(abs(low), abs(high)), max(abs(low), abs(high))
    if low == high:
        low = high * (0.1 if high > 0 else 10.0)
    function = function_of(rng, low, high) or Function("sigmoid", (-8.0, 8.0), ())
    start, end = function.interval
    count = int(rng.integers(2, 200))
    x = rng.uniform(start, end, count)
    if rng.random() < 0.5:
        x = rng.choice([start, end], count)
    if "gap" in (options := dict(function.options)):
        x = np.where(np.abs(x) < options["gap"], end if end >= options["gap"] else start, x)
    where = Where("planned", told=str(rng.choice(["", "ranges"])))
    if rng.random() < 0.5:
        where = Where("preset", name="n16", depth=LEVELED["n16"])
    draft = Draft(rng, where)
    draft.inputs = [Input(x, x, "array of float64")]
    draft.values, draft.depths = [x], [0]
    made = function.make()
    draft.add(f"{draft.function(function)}(r0)", int(made.depth))
    largest = max(abs(start), abs(end), float(np.abs(draft.values[-1]).max()))
    plain = where.kind == "planned" and made.depth <= 12 and largest <= 1e6
    return _finish(draft, "it is planned for the interval of the function" if plain else None)


def draw_large(rng: Rng) -> Case:
    """Draws numbers that grow while levels can hold them."""
    depth = int(rng.integers(1, 12))
    where = Where("depth", depth=depth) if rng.random() < 0.3 else Where("preset", name="n16", depth=33)
    draft = Draft(rng, where)
    size = float(rng.choice([2.0, 30.0, 300.0, 500.0, 900.0, 5e3]))
    x = numbers(rng, (int(rng.integers(1, 6)),), size)
    draft.inputs = [Input(x, x, "array of float64")]
    draft.values, draft.depths = [x], [0]
    for _ in range(int(rng.integers(1, 3))):
        a = len(draft.values) - 1
        texts = [f"r{a} ** {int(rng.integers(2, 9))}", f"r{a} * {10.0 ** rng.integers(1, 15)!r}"]
        texts += [f"r{a} + {10.0 ** rng.integers(2, 18)!r}", f"r{a} * r{a}", f"r{a} - {size!r}"]
        draft.add(str(rng.choice(texts)), draft.depths[a] + 3)
    return _finish(draft)


GENERATORS = [
    Generator(
        "arrays",
        draw,
        (
            "numbers that leave the room of the modulus",
            "numbers of padding",
            "numbers outside of the interval of a function",
            "contexts that refuse inputs which they were planned for",
            "stated errors that say nothing",
            "ranges that do not hold",
            "types, orders and containers of operands",
            "errors of other packages",
        ),
        executed_every=50,
        share=7.0,
    ),
    Generator(
        "functions",
        draw_function,
        (
            "compositions of polynomials that run away",
            "numbers outside of the interval of a function",
            "contexts that refuse inputs which they were planned for",
            "stated errors that say nothing",
        ),
        executed_every=20,
        share=1.5,
    ),
    Generator(
        "large numbers",
        draw_large,
        ("numbers that leave the room of the modulus",),
        executed_every=20,
        share=1.5,
    ),
]
