"""Calls of about one size share a bucket."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgen.families import family_named
from flashgen.tuning.records.bucket import Bucket, bucket_for, bucket_of, parse_bucket

sizes = st.integers(1, 1 << 20)


@pytest.mark.parametrize(
    ("sizes", "bucket"),
    [((1, 1, 1), (1, 1, 1)), ((8, 1024, 1024), (8, 1024, 1024)), ((9, 1025, 1000), (16, 2048, 1024)),
     ((3, 2, 5), (4, 2, 8))],
)  # fmt: skip
def test_sizes_are_rounded_up_to_powers_of_two(sizes: tuple[int, int, int], bucket: tuple[int, int, int]) -> None:
    assert bucket_of(*sizes) == Bucket(*bucket)


@given(sizes, sizes, sizes)
def test_a_bucket_holds_its_own_largest_call_and_its_name_can_be_read(heads: int, q: int, k: int) -> None:
    bucket = bucket_of(heads, q, k)
    assert bucket_of(bucket.heads, bucket.seqlen_q, bucket.seqlen_k) == bucket
    largest = (bucket.heads, bucket.seqlen_q, bucket.seqlen_k)
    assert all(size <= most < 2 * size for size, most in zip((heads, q, k), largest, strict=True))
    assert parse_bucket(bucket.name) == bucket


@given(sizes, st.integers(1, 64), st.integers(1, 64), sizes)
def test_packed_buckets_count_what_shares_keys(batch: int, heads_kv: int, group: int, k: int) -> None:
    decode, fa2 = family_named("cpu_decode"), family_named("cpu_fa2")
    bucket = bucket_for(decode, batch, heads_kv * group, heads_kv, 3, k)
    assert bucket == replace(bucket_of(batch * heads_kv, 3 * group, k), packed=True)
    assert bucket_for(fa2, batch, heads_kv * group, heads_kv, 3, k) == bucket_of(batch * heads_kv * group, 3, k)
    assert parse_bucket(bucket.name) == bucket


def test_people_read_ranges() -> None:
    assert bucket_of(8, 1000, 1).summary == "B*H 5-8, Sq 513-1,024, Sk 1"
    assert replace(bucket_of(8, 1, 4000), packed=True).summary == "B*Hkv 5-8, packed rows 1, Sk 2,049-4,096"


@pytest.mark.parametrize("name", ["", "h8_q1024", "h8_q1024_k1024.x", "h_q1_k1", "h8_rows1_k1", "kv8_q1_k1"])
def test_other_names_are_none(name: str) -> None:
    assert parse_bucket(name) is None
