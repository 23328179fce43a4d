"""Cases, the ways to run them, and their verdicts."""

from __future__ import annotations

import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sudare import errors

Rng = np.random.Generator

Kind = Literal["right", "refused", "finding"]


@dataclass(frozen=True)
class Verdict:
    """The judgement of one case."""

    kind: Kind
    reason: str
    """The class of the refusal, or the kind of the finding."""
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of one way to run a case: a value, or an error."""

    value: Any = None
    error: BaseException | None = None

    @property
    def refused(self) -> bool:
        """Returns whether sudare refused the case with an error of its own."""
        return isinstance(self.error, errors.Error)

    @property
    def foreign(self) -> bool:
        """Returns whether the case failed with an error that no page promises."""
        return self.error is not None and not self.refused and not self._of_an_operand

    @property
    def _of_an_operand(self) -> bool:
        """Returns whether another library's operand refused before sudare, because NumPy calls each in turn."""
        if self.error is None or not (frames := traceback.extract_tb(self.error.__traceback__)):
            return False
        return frames[-1].name == "__array_ufunc__" and "pandas" in Path(frames[-1].filename).parts


def attempt(run: Callable[[], Any]) -> Outcome:
    """Runs a function, and keeps the error if there is one.

    Native code that panics raises an exception outside of `Exception`, which counts as foreign.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome(value=run())
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        return Outcome(error=error)


def said(error: BaseException | None) -> str:
    """Describes an error in one line, with its place if it is foreign."""
    text = f"{type(error).__name__}: {str(error)[:200]}".replace("\n", " ")
    if error is None or isinstance(error, errors.Error):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} (at {frames[-1].name}, line {frames[-1].lineno})" if frames else text


@dataclass(frozen=True)
class Expected:
    """The right value, and the allowed error of a result."""

    value: npt.NDArray[Any]
    tolerance: npt.NDArray[Any] | float
    """Allowed error of each element."""

    def fault(self, found: Any) -> str | None:
        """Explains why a result is wrong. Returns `None` if it is right."""
        result = np.asarray(found)
        if result.shape != self.value.shape:
            return f"shape {result.shape}, expected {self.value.shape}"
        if result.size == 0:
            return None
        if result.dtype.kind not in "biufO" or self.value.dtype.kind not in "biufO":
            return None if (result == self.value).all() else _unequal(result, self.value)
        if self.value.dtype.kind == "O" or result.dtype.kind == "O":
            # Integers of any size, compared exactly.
            same = result.astype(object) == self.value.astype(object)
            return None if same.all() else _unequal(result, self.value)
        with np.errstate(all="ignore"):
            value, got = self.value.astype(np.float64), result.astype(np.float64)
            error = np.abs(got - value)
            both = (np.isnan(got) & np.isnan(value)) | (got == value)
            excess = np.where(both, -1.0, error - self.tolerance)
            excess = np.where(np.isnan(excess), np.inf, excess)
        worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
        if excess[worst] <= 0:
            return None
        allowed = np.broadcast_to(self.tolerance, excess.shape)[worst]
        place = tuple(int(i) for i in worst)
        return (
            f"at {place} found {got[worst]:.6g}, expected {value[worst]:.6g} within {allowed:.2g}"
        )


def _unequal(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> str:
    places = np.argwhere(np.asarray(found.astype(object) != expected.astype(object)))
    place = tuple(int(i) for i in places[0])
    return f"at {place} found {found[place]!r}, expected {expected[place]!r}"


def judge(
    outcomes: Mapping[str, Outcome],
    expected: Mapping[str, Expected] | None,
    *,
    must: str | None = None,
    excuses: Sequence[type[BaseException]] = (),
) -> Verdict:
    """Judges the outcomes of several ways to run a case.

    `expected` has the right value of each way, or is `None` where the reference refuses. `must`
    names the promise that the case is not refused, if there is one. `excuses` are errors that a
    page promises outside of `sudare.errors`, such as `FileNotFoundError`.
    """
    for way, outcome in outcomes.items():
        if outcome.foreign and not isinstance(outcome.error, tuple(excuses)):
            return Verdict("finding", "foreign exception", f"{way}: {said(outcome.error)}")
    for way, outcome in outcomes.items():
        if outcome.error is None and expected is not None:
            fault = expected[way].fault(outcome.value)
            if fault is not None:
                return Verdict("finding", "wrong value", f"{way}: {fault}")
    refused = {way: outcome for way, outcome in outcomes.items() if outcome.error is not None}
    if refused and len(refused) < len(outcomes):
        way, outcome = next(iter(refused.items()))
        others = ", ".join(way for way in outcomes if way not in refused)
        return Verdict(
            "finding", "refused in one way only", f"{way}: {said(outcome.error)}; right: {others}"
        )
    if refused:
        way, outcome = next(iter(refused.items()))
        if must is not None:
            return Verdict("finding", f"refused though {must}", f"{way}: {said(outcome.error)}")
        return Verdict("refused", type(outcome.error).__name__, said(outcome.error))
    if expected is None:
        way, outcome = next(iter(outcomes.items()))
        return Verdict(
            "finding", "taken though the reference refuses", f"{way}: {str(outcome.value)[:100]}"
        )
    return Verdict("right", "right")


class Case(ABC):
    """One drawn case."""

    @abstractmethod
    def describe(self) -> str:
        """The case as a short program."""

    @abstractmethod
    def run(self, *, execute: bool) -> Verdict:
        """Runs the case in simulation, with `execute` also encrypted, and judges the outcomes."""

    def smaller(self) -> Iterator[Case]:
        """Yields slightly simpler cases, to shrink a finding."""
        return iter(())


@dataclass(frozen=True)
class Generator:
    """A kind of cases."""

    name: str
    draw: Callable[[Rng], Case]
    covers: tuple[str, ...]
    """Classes of faults that the generator can find."""
    executed_every: int = 1
    """Number of cases for each executed one, in the long form."""
    share: float = 1.0
    """Share of this generator among the cases of all."""


def case_of(generator: Generator, seed: int, number: int) -> Case:
    """Draws the case of this number, the same on every machine."""
    return generator.draw(np.random.default_rng([seed, number]))


def run_case(case: Case, *, execute: bool) -> Verdict:
    """Judges a case, also if the harness itself fails."""
    outcome = attempt(lambda: case.run(execute=execute))
    if outcome.error is not None:
        return Verdict("finding", "the bench failed", said(outcome.error))
    verdict: Verdict = outcome.value
    return verdict


def shrink(case: Case, verdict: Verdict, *, execute: bool, tries: int = 60) -> tuple[Case, Verdict]:
    """A simpler case with a finding of the same kind."""
    found, left = True, tries
    while found and left > 0:
        found = False
        for candidate in case.smaller():
            left -= 1
            again = run_case(candidate, execute=execute)
            if again.kind == "finding" and again.reason == verdict.reason:
                case, verdict, found = candidate, again, True
                break
            if left <= 0:
                break
    return case, verdict


@dataclass
class Report:
    """Counts of verdicts."""

    drawn: int = 0
    executed: int = 0
    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, *, execute: bool) -> None:
        """Counts one more."""
        self.drawn += 1
        self.executed += execute
        if verdict.kind == "right":
            self.right += 1
        elif verdict.kind == "refused":
            self.refused[verdict.reason] += 1
        else:
            self.findings[verdict.reason] += 1

    def __str__(self) -> str:
        parts = [f"{self.drawn} drawn", f"{self.executed} executed", f"{self.right} right"]
        for name, counts in (("refused", self.refused), ("findings", self.findings)):
            reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
            parts.append(f"{sum(counts.values())} {name}" + (f" ({reasons})" if reasons else ""))
        return ", ".join(parts)
