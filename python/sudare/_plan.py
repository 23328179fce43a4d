"""What plans of jobs on tables have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sudare import _native
from sudare._context import Keys
from sudare._explain import Explanation
from sudare._progress import Progress, callback


@dataclass(frozen=True)
class JobPlan:
    """What to compute of a table of known shape, and parameters for it."""

    _native: _native.TablePlan

    @property
    def job(self) -> str:
        """What is computed, as the command line has it, such as `stats:189x9`."""
        return self._native.job

    def explain(self) -> Explanation:
        """Sizes and security, and the time of statistics and trainings, before any key is made."""
        return Explanation.of(self._native)

    def make_keys(self, progress: Progress = None) -> Keys:
        """Keys for exactly this: public, for evaluation, secret."""
        self._native.parameters.warn_if_insecure(2)
        return Keys(*_native.generate_keys(self._native, callback(progress)))

    def __repr__(self) -> str:
        return f"Plan({self.job})"


def as_list(tables: _native.Table | Sequence[_native.Table]) -> list[_native.Table]:
    """One table, or several."""
    return [tables] if isinstance(tables, _native.Table) else list(tables)
