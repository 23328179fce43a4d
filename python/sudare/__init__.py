"""Computing on encrypted arrays.

>>> import numpy as np, sudare
>>> ctx = sudare.Context(depth=3)
>>> x = ctx.encrypt(np.arange(12.0).reshape(3, 4))
>>> y = (x * x + 1).mean(axis=0)
>>> np.round(ctx.decrypt(y), 3)
array([27.667, 36.667, 47.667, 60.667])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sudare import errors, functions, stats
from sudare._array import EncryptedArray
from sudare._context import Context, Keys
from sudare._explain import Explanation
from sudare._integer_context import (
    IntegerBootstrapping,
    IntegerContext,
    IntegerExplanation,
    IntegerKeys,
)
from sudare._integers import EncryptedBooleans, EncryptedIntegers
from sudare._native import (
    EvaluationKeys,
    IntegerEvaluationKeys,
    IntegerPublicKey,
    IntegerSecretKey,
    PublicKey,
    SecretKey,
    __version__,
    cpu_info,
)
from sudare._native import Result as EncryptedResult
from sudare._native import Table as EncryptedTable
from sudare._word_context import WordContext, WordExplanation, WordNeeds
from sudare._words import EncryptedWords
from sudare.errors import Error

__all__ = [
    "Client",
    "Context",
    "EncryptedArray",
    "EncryptedBooleans",
    "EncryptedIntegers",
    "EncryptedResult",
    "EncryptedTable",
    "EncryptedWords",
    "Error",
    "EvaluationKeys",
    "Explanation",
    "IntegerBootstrapping",
    "IntegerContext",
    "IntegerEvaluationKeys",
    "IntegerExplanation",
    "IntegerKeys",
    "IntegerPublicKey",
    "IntegerSecretKey",
    "Keys",
    "LinearRegression",
    "LogisticRegression",
    "PublicKey",
    "Ridge",
    "SecretKey",
    "WordContext",
    "WordExplanation",
    "WordNeeds",
    "__version__",
    "client",
    "cpu_info",
    "distributed",
    "errors",
    "functions",
    "linear_model",
    "nn",
    "pool",
    "scoring",
    "search",
    "stats",
    "trees",
]

if TYPE_CHECKING:
    from sudare import client, distributed, linear_model, nn, pool, scoring, search, trees
    from sudare.client import Client
    from sudare.linear_model import LinearRegression, LogisticRegression, Ridge
else:
    # Estimators import scikit-learn where it is installed, and distributed trainings asyncio: both take a
    # while. A client of services needs packages of its own.
    _LAZY = {
        **dict.fromkeys(
            ("client", "distributed", "linear_model", "nn", "pool", "scoring", "search", "trees"), None
        ),
        "Client": "client",
        "LinearRegression": "linear_model",
        "LogisticRegression": "linear_model",
        "Ridge": "linear_model",
    }

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(f"module 'sudare' has no attribute {name!r}")
        module = _LAZY[name]
        if module is None:
            return importlib.import_module(f"sudare.{name}")
        return getattr(importlib.import_module(f"sudare.{module}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
