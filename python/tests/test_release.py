"""Values that others than the owner of the key may see."""

import numpy as np
import pytest

import sudare
from sudare import EncryptedArray, errors


def mean(x: EncryptedArray) -> EncryptedArray:
    return (x * x).mean(axis=0)


@pytest.fixture(scope="module")
def context() -> sudare.Context:
    return sudare.Context.for_program(mean, [(100, 3)], share_bits=10)


def test_results_are_released_to_the_bits_planned_for(context: sudare.Context) -> None:
    x = np.linspace(-1, 1, 300).reshape(100, 3)
    explained = context.explain().program
    assert explained is not None
    (output,) = explained.outputs
    assert output.share_bits is not None and output.share_bits >= 10
    assert f"release to {output.share_bits} bits" in str(context.explain())
    result = mean(context.encrypt(x))
    expected = (x * x).mean(axis=0)
    assert output.largest_error is not None
    assert abs(context.decrypt(result) - expected).max() < output.largest_error
    for bits in (10, 4):
        shown = context.release(result, bits=bits)
        assert shown.shape == (3,)
        assert abs(shown - expected).max() <= 2.0**-bits
        assert (shown * 2.0**bits % 1 == 0).all()


def test_what_was_not_planned_is_refused(context: sudare.Context) -> None:
    result = mean(context.encrypt(np.ones((100, 3))))
    with pytest.raises(errors.TooLittlePrecisionError, match=r"share_bits=25"):
        context.release(result, bits=25)
    with pytest.raises(errors.TooLittlePrecisionError, match="not even one"):
        context.release(result, bits=1, largest_error=0.5)
    with pytest.raises(errors.UnsupportedError, match="share_bits"):
        context.release(context.encrypt(np.ones(3)), bits=1)
    with pytest.raises(errors.ValueTooLargeError, match="at most 1"):
        context.encrypt(np.full((100, 3), 1.5))
    with pytest.raises(errors.InvalidSpecError, match="at least 1"):
        context.release(result, bits=0)
    with pytest.raises(errors.TooLittlePrecisionError):
        sudare.Context.for_program(mean, [(100, 3)], share_bits=30)


def test_a_bound_can_be_given() -> None:
    program = sudare.Context(depth=2).explain(mean, [(100, 3)]).program
    assert program is not None
    context = sudare.Context(depth=2, mode="simulate")
    result = mean(context.encrypt(np.full((100, 3), 0.5)))
    assert program.outputs[0].share_bits is None
    with pytest.raises(errors.TooLittlePrecisionError, match="values with errors of up to"):
        context.release(result, bits=4, largest_error=program.outputs[0].largest_error)
    shown = context.release(result, bits=4, largest_error=1e-14)
    assert (shown == 0.25).all()
