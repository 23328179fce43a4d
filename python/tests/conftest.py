"""What tests share."""

from __future__ import annotations

import pytest

import sudare


@pytest.fixture(scope="session")
def ctx() -> sudare.Context:
    """An owner's context with keys."""
    return sudare.Context(depth=3)


@pytest.fixture(scope="session")
def stranger() -> sudare.Context:
    """Another owner's context under the same parameters."""
    return sudare.Context(depth=3)
