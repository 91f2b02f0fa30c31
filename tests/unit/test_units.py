import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.errors import SpecError
from flashgen.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("96KB", 98304),
        ("96KiB", 98304),
        ("96kb", 98304),
        ("96 K", 98304),
        (" 96KB ", 98304),
        ("0.5MB", 524288),
        (".5MiB", 524288),
        ("1.5KB", 1536),
        ("98304", 98304),
        ("98304B", 98304),
        (98304, 98304),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "KB", "96GB", "96 KB extra", "-1", "0", "0KB", "1e3", "0.3", "9٦KB", None, True, 1.5]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(SpecError):
        parse_bytes(text)  # type: ignore[arg-type]


def test_the_message_says_what_a_kb_is() -> None:
    with pytest.raises(SpecError, match="96KB = 98,304 bytes"):
        parse_bytes("plenty")


@pytest.mark.parametrize(
    ("size", "text"),
    [(1000, "1,000 bytes"), (98304, "98,304 bytes (96 KiB)"), (2**20, "1,048,576 bytes (1 MiB)"), (0, "0 bytes")],
)
def test_sizes_are_printed_exactly(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(1, 2**50))
def test_a_number_of_bytes_reads_as_itself(size: int) -> None:
    assert parse_bytes(str(size)) == parse_bytes(size) == size
