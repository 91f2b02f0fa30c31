"""Attention on real arrays: build a kernel, call it, compare with float64, time it.

    python examples/quickstart.py

With torch installed the same callable is shown on torch tensors as well.
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np

import flashgen
from flashgen.reference import attention_reference


def main() -> None:
    attn = flashgen.build(d=64, dtype="fp16", sram="96KB")
    print(f"\n{attn!r}")

    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 8, 512, 64)).astype(np.float16) for _ in range(3))

    out = attn(q, k, v)  # (batch, heads, rows, d) in, the same out
    start = time.perf_counter()
    out, lse = attn(q, k, v, return_lse=True)
    elapsed = time.perf_counter() - start

    exact, exact_lse = attention_reference(q, k, v)
    print(f"NumPy  {q.shape} {q.dtype}: {elapsed * 1e3:.1f} ms")
    print(f"       max error against float64: out {abs(out - exact).max():.1e}, lse {abs(lse - exact_lse).max():.1e}")
    if importlib.util.find_spec("torch"):
        show_torch(attn, q, k, v, exact)


def show_torch(attn: flashgen.Attention, q: np.ndarray, k: np.ndarray, v: np.ndarray, exact: np.ndarray) -> None:
    import torch

    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    ours = attn(*tensors)
    theirs = torch.nn.functional.scaled_dot_product_attention(*tensors)
    print(f"torch  max error against float64: flashgen {abs(ours.numpy() - exact).max():.1e}, ", end="")
    print(f"torch's own {abs(theirs.numpy() - exact).max():.1e}")


if __name__ == "__main__":
    main()
