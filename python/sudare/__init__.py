"""Computing on encrypted arrays.

>>> import numpy as np, sudare
>>> ctx = sudare.Context(depth=3)
>>> x = ctx.encrypt(np.arange(12.0).reshape(3, 4))
>>> y = (x * x + 1).mean(axis=0)
>>> np.round(ctx.decrypt(y), 3)
array([27.667, 36.667, 47.667, 60.667])
"""

from sudare import errors, functions, stats
from sudare._array import EncryptedArray
from sudare._context import Context, Keys
from sudare._explain import Explanation
from sudare._native import EvaluationKeys, PublicKey, SecretKey, __version__, cpu_info
from sudare._native import Table as EncryptedTable
from sudare.errors import Error

__all__ = [
    "Context",
    "EncryptedArray",
    "EncryptedTable",
    "Error",
    "EvaluationKeys",
    "Explanation",
    "Keys",
    "PublicKey",
    "SecretKey",
    "__version__",
    "cpu_info",
    "errors",
    "functions",
    "stats",
]
