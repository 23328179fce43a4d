"""The common part of plans of jobs on tables."""

from __future__ import annotations

from dataclasses import dataclass

from sudare import _native
from sudare._context import Keys
from sudare._explain import Explanation
from sudare._plain import expect_type, items
from sudare._progress import Progress, callback
from sudare._shown import facts_html


@dataclass(frozen=True)
class JobPlan:
    """A job on a table of known shape, with parameters for it."""

    _native: _native.TablePlan

    @property
    def job(self) -> str:
        """The job as the command names it, such as `stats:189x9`."""
        return self._native.job

    def explain(self) -> Explanation:
        """Returns sizes, security and the time of statistics and trainings, before any key is made."""
        return Explanation.of(self._native)

    def make_keys(self, progress: Progress = None) -> Keys:
        """Makes the keys of the plan: public, for evaluation, secret."""
        self._native.parameters.warn_if_insecure(2)
        return Keys(*_native.generate_keys(self._native, callback(progress)))

    def _facts(self) -> dict[str, str]:
        return {"job": self.job, **self.explain()._facts()}

    def __repr__(self) -> str:
        return f"Plan({self.job})"

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self._facts())


def as_list(tables: object) -> list[_native.Table]:
    """Returns a list of one table or several."""
    if isinstance(tables, _native.Table):
        return [tables]
    found = items(tables, "a table", "an EncryptedTable, or a list of them")
    for table in found:
        expect_type(table, "a table", _native.Table)
    return found
