import pickle

import pytest

from flashgen import errors
from flashgen.errors import FlashgenError

SAMPLES = [
    errors.SpecError("no"),
    errors.ArgumentError("no", tensor="q", expected="fp16", got="fp32"),
    errors.BudgetError("no", required=2, limit=1, hint="less"),
    errors.RenderError("no"),
    errors.ToolchainError("no"),
    errors.CompileError("no", log="log", command="g++", excerpt="> 1 | x"),
    errors.VerificationError("no"),
    errors.TuneError("no", trials=(1, 2)),
    errors.LaunchError("no"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_errors_cross_process_borders_unchanged(error: FlashgenError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_exit_codes_are_the_documented_ones() -> None:
    codes = {type(error).__name__: error.exit_code for error in SAMPLES}
    assert codes == {
        "SpecError": 2, "ArgumentError": 2, "BudgetError": 3, "RenderError": 4, "ToolchainError": 4,
        "CompileError": 4, "VerificationError": 5, "TuneError": 5, "LaunchError": 6,
    }  # fmt: skip


def test_every_error_class_is_sampled() -> None:
    assert {type(error) for error in SAMPLES} == {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FlashgenError)
    } - {FlashgenError}
