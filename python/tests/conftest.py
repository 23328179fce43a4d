"""Fixtures of all tests."""

from __future__ import annotations

import pytest

import sudare


@pytest.fixture(scope="session")
def ctx() -> sudare.Context:
    """Makes an owner's context with keys."""
    return sudare.Context(depth=3)


@pytest.fixture(scope="session")
def stranger() -> sudare.Context:
    """Makes another owner's context under the same parameters."""
    return sudare.Context(depth=3)
