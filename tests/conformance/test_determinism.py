"""Same inputs, same plan, same bits: whatever the number of threads, the place in the batch, the run."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

D = 16

# Prints one digest a line, for shapes with fewer and with more heads than threads.
DIGESTS = """
import hashlib, itertools, sys
import numpy as np
import flashgen
from flashgen.dtypes import parse_dtype
from flashgen.runtime.openmp import thread_pool

algorithm, target, threads = sys.argv[1:]
assert thread_pool().max_threads() == int(threads), thread_pool()
shapes = [(1, 1, 1, 300, 333), (1, 3, 1, 65, 200), (2, 8, 2, 1, 500), (3, 4, 4, 70, 64), (1, 1, 1, 1, 1500)]
for dtype, causal in itertools.product(("fp16", "bf16", "fp32", "fp64"), (False, "bottom_right")):
    attn = flashgen.build(16, dtype, causal=causal, target=target, algorithm=algorithm)
    rng = np.random.default_rng(0)
    for batch, heads, heads_kv, seqlen_q, seqlen_k in shapes:
        sizes = (heads, seqlen_q), (heads_kv, seqlen_k), (heads_kv, seqlen_k)
        q, k, v = (rng.standard_normal((batch, *size, 16)).astype(parse_dtype(dtype).numpy()) for size in sizes)
        out, lse = attn(q, k, v, return_lse=True)
        print(dtype, causal, q.shape, hashlib.sha256(out.tobytes() + lse.tobytes()).hexdigest())
"""


@cache
def digests(algorithm, target, threads):
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS, algorithm, target, str(threads)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_any_number_of_threads_gives_the_same_bits(cpu_backend, threads):
    alone = digests(cpu_backend.algorithm, str(cpu_backend.target), 1)
    assert alone.count("\n") == 40
    assert digests(cpu_backend.algorithm, str(cpu_backend.target), threads) == alone


def test_any_number_of_torch_threads_gives_the_same_bits(cpu_backend, two_dtypes, draw):
    torch = pytest.importorskip("torch")
    kernel = cpu_backend.build(D, two_dtypes, "bottom_right")
    inputs = draw((2, 3, 1, 130, 200), D, dtype=two_dtypes)
    before, results = torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            out, lse = kernel(*inputs, return_lse=True)
            results.add(out.tobytes() + lse.tobytes())
    finally:
        torch.set_num_threads(before)
    assert len(results) == 1


def test_any_place_in_the_batch_gives_the_same_bits(backend, dtype, causal, draw):
    """One problem among others: first, in the middle, last; and in every head."""
    kernel = backend.build(D, dtype, causal)
    others = draw((5, 4, 2, 40, 130), D, dtype=dtype)
    one = draw((1, 4, 2, 40, 130), D, dtype=dtype, seed=1)
    results = set()
    for place in range(5):
        batch = [x.copy() for x in others]
        for x, mine in zip(batch, one, strict=True):
            x[place] = mine[0]
        out, lse = kernel(*batch, return_lse=True)
        results.add(out[place].tobytes() + lse[place].tobytes())
    assert len(results) == 1

    heads = [np.repeat(x[:, :1], 6, axis=1) for x in one]
    out, lse = kernel(*heads, return_lse=True)
    assert len({out[0, h].tobytes() + lse[0, h].tobytes() for h in range(6)}) == 1


def test_padding_gives_the_same_bits_at_any_place_in_the_batch(backend, two_dtypes, draw):
    kernel = backend.build(D, two_dtypes, "bottom_right")
    q, k, v = (np.repeat(x, 4, axis=0) for x in draw((1, 2, 1, 20, 130), D, dtype=two_dtypes))
    seen = {}
    for lengths in ([0, 65, 130, 7], [7, 0, 65, 130], [130, 7, 0, 65]):
        out, lse = kernel(q, k, v, return_lse=True, seqlens_k=lengths)
        for b, length in enumerate(lengths):
            seen.setdefault(length, set()).add(out[b].tobytes() + lse[b].tobytes())
    assert {length: len(results) for length, results in seen.items()} == {0: 1, 7: 1, 65: 1, 130: 1}


def test_every_run_gives_the_same_bits(backend, dtype, draw):
    """With other work in between, so that nothing of a former call may linger in a workspace."""
    kernel = backend.build(D, dtype, "bottom_right")
    inputs = draw((2, 2, 1, 70, 130), D, dtype=dtype)
    q, k, v = draw((1, 5, 5, 200, 300), D, dtype=dtype, seed=1)
    v[...] = np.nan
    results = set()
    for _ in range(4):
        out, lse = kernel(*inputs, return_lse=True)
        results.add(out.tobytes() + lse.tobytes())
        kernel(q, k, v)
        kernel(q[:, :1, :3], k[:, :1, :1], v[:, :1, :1])
    assert len(results) == 1


def test_a_call_sees_what_was_written_since_the_last_one(backend, two_dtypes, draw):
    """The same tensors with other contents; several tiles, so that a thread may keep what it prepared of K and V."""
    kernel = backend.build(D, two_dtypes)
    q, k, v = draw((1, 2, 1, 300, 130), D, dtype=two_dtypes)
    others = draw((1, 2, 1, 300, 130), D, dtype=two_dtypes, seed=1)
    want = kernel(*others, return_lse=True)
    kernel(q, k, v)
    for x, other in zip((q, k, v), others, strict=True):
        x[...] = other
    got = kernel(q, k, v, return_lse=True)
    assert [x.tobytes() for x in got] == [x.tobytes() for x in want]


def test_threads_that_call_at_once_get_their_own_results(cpu_backend, two_dtypes, draw):
    from concurrent.futures import ThreadPoolExecutor

    kernel = cpu_backend.build(D, two_dtypes)
    problems = [draw((1, 2, 2, 20 + n, 130 - n), D, dtype=two_dtypes, seed=n) for n in range(8)]
    want = [kernel(*inputs).tobytes() for inputs in problems]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert [x.tobytes() for x in pool.map(lambda inputs: kernel(*inputs), problems)] == want
