"""What is checked on the device. Each check is a name and a function that raises AssertionError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import oracle
import torch
from kernels import CAUSAL, Pack, Wanted, grid, taken, torch_host

from flashgen.dtypes import parse_dtype
from flashgen.errors import LaunchError
from flashgen.runtime.kernel import Problem

Check = tuple[str, Callable[[], None]]
SHAPES = ((2, 4, 2, 130, 257), (1, 2, 1, 1, 1000), (1, 3, 3, 300, 64), (3, 2, 2, 65, 65))  # B, Hq, Hkv, Sq, Sk
DEVICE = "cuda"


@dataclass(frozen=True)
class Tensors:
    """Inputs of one call."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


def tensors(wanted: Wanted, shape: tuple[int, int, int, int, int], seed: int = 0) -> Tensors:
    """Random tensors, each a view into a NaN-filled buffer that is longer in every direction."""
    batch, heads, heads_kv, rows, keys = shape
    kind = getattr(torch, parse_dtype(wanted.dtype).numpy_name)
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def embedded(h: int, s: int, d: int) -> torch.Tensor:
        buffer = torch.full((batch, h, s + 2, d + 3), torch.nan, dtype=kind, device=DEVICE)
        view = buffer[:, :, 1:-1, 1:-2]
        view.copy_(torch.randn((batch, h, s, d), dtype=torch.float64, device=DEVICE, generator=generator))
        return view

    d_v = wanted.d_v or wanted.d
    return Tensors(embedded(heads, rows, wanted.d), embedded(heads_kv, keys, wanted.d), embedded(heads_kv, keys, d_v))


def compare(
    pack: Pack, wanted: Wanted, x: Tensors, scale: float | None = None, lengths: list[int] | None = None
) -> None:
    """Runs a kernel into NaN-filled outputs and compares with the oracle."""
    attn = pack.open(wanted)
    out = torch.full((*x.q.shape[:3], x.v.shape[-1]), torch.nan, dtype=x.q.dtype, device=DEVICE)
    seqlens = None if lengths is None else torch.tensor(lengths, device=DEVICE)
    _, lse = attn(x.q, x.k, x.v, softmax_scale=scale, seqlens_k=seqlens, out=out, return_lse=True)
    want, want_lse = oracle.attention(x.q, x.k, x.v, wanted.spec.causal, scale, lengths)
    worst, worst_lse = oracle.deviation(out, want), oracle.deviation(lse, want_lse)
    assert worst <= oracle.ABSOLUTE[wanted.dtype], f"out is off by {worst:.2e}"
    assert worst_lse <= oracle.LSE[wanted.dtype], f"lse is off by {worst_lse:.2e}"


def conformance(pack: Pack, families: tuple[str, ...]) -> Iterator[Check]:
    """The grid, each kernel on several shapes."""
    for wanted in grid(families):
        yield f"grid {wanted}", lambda wanted=wanted: _all_shapes(pack, wanted)


def _all_shapes(pack: Pack, wanted: Wanted) -> None:
    for seed, shape in enumerate(SHAPES):
        compare(pack, wanted, tensors(wanted, shape, seed))


def behaviour(pack: Pack, families: tuple[str, ...]) -> Iterator[Check]:
    """Everything that is not a grid point."""
    for family in families:
        for check in (
            padding, scales, huge_logits, layouts, many_heads, far_offsets, same_bits, streams, threads, graph,
            graph_before_warm_up, empty,
        ):  # fmt: skip
            yield f"{check.__name__} {family}", lambda family=family, check=check: check(pack, family)
    if "cuda_fa1" in families:
        yield "row_ranges cuda_fa1", lambda: row_ranges(pack)


def padding(pack: Pack, family: str) -> None:
    """Keys past seqlens_k are NaN and never show, under every mask."""
    for causal in CAUSAL:
        wanted = Wanted(family, 64, "fp16", causal)
        x = tensors(wanted, (4, 2, 1, 50, 90))
        lengths = [0, 1, 33, 90]
        for b, length in enumerate(lengths):
            x.k[b, :, length:] = torch.nan
            x.v[b, :, length:] = torch.nan
        compare(pack, wanted, x, lengths=lengths)


def scales(pack: Pack, family: str) -> None:
    """Zero, negative, tiny and large scales."""
    wanted = Wanted(family, 64, taken(family, "fp32", "bf16") or "fp16")
    for scale in (0.0, -0.5, 1e-30, 2.0):
        compare(pack, wanted, tensors(wanted, (1, 2, 2, 70, 70)), scale=scale)


def huge_logits(pack: Pack, family: str) -> None:
    """One key of each row towers over the others by 1e30: the row is that key's V."""
    wanted = Wanted(family, 64, taken(family, "fp32", "bf16") or "fp16")
    x = tensors(wanted, (1, 1, 1, 64, 64))
    x.q.zero_()
    x.k.zero_()
    x.q[..., 0] = 2.0**50
    x.k[..., 0] = -(2.0**50)
    x.k[0, 0, 37, 0] = 2.0**50
    out = pack.open(wanted)(x.q, x.k, x.v, softmax_scale=1.0)
    assert torch.equal(out, x.v[:, :, 37:38].expand_as(out))


def layouts(pack: Pack, family: str) -> None:
    """(B, S, H, d), transposed and expanded views give the bits of the plain call."""
    wanted = Wanted(family, 64, "fp16", "bottom_right")
    attn, x = pack.open(wanted), tensors(wanted, (2, 4, 4, 60, 60))
    plain = attn(x.q, x.k, x.v)
    turned = attn(*(t.transpose(1, 2).contiguous() for t in (x.q, x.k, x.v)), layout="bshd")
    assert torch.equal(plain, turned.transpose(1, 2))
    expanded = attn(x.q, x.k[:, :1].expand(-1, 4, -1, -1), x.v[:, :1].expand(-1, 4, -1, -1))
    assert torch.equal(expanded, attn(x.q, x.k[:, :1], x.v[:, :1]))


def many_heads(pack: Pack, family: str) -> None:
    """Batch times heads beyond 65,535."""
    wanted = Wanted(family, 32, "fp16", "bottom_right")
    x = tensors(wanted, (35_000, 2, 1, 3, 5))
    out = pack.open(wanted)(x.q, x.k, x.v)
    pick = torch.tensor([0, 1, 20_000, 34_999], device=DEVICE)
    want, _ = oracle.attention(x.q[pick], x.k[pick], x.v[pick], wanted.spec.causal)
    assert oracle.deviation(out[pick], want) <= oracle.ABSOLUTE["fp16"]


def far_offsets(pack: Pack, family: str) -> None:
    """A storage of more than 2^31 elements (4.3 GB; left out where memory is short)."""
    free, _ = torch.cuda.mem_get_info()
    if free < 12 * 2**30:
        return
    wanted = Wanted(family, 64, "fp16")
    attn, x = pack.open(wanted), tensors(wanted, (1, 2, 2, 40, 40))
    storage = torch.empty(2**31 + 40 * 64, dtype=torch.float16, device=DEVICE)
    far = storage.as_strided((1, 2, 40, 64), (0, 2**31, 64, 1))  # the second head lies beyond 2^31
    want = attn(x.q, x.k, x.v)
    assert torch.equal(attn(x.q, far.copy_(x.k), x.v), want)
    assert torch.equal(attn(far.copy_(x.q), x.k, x.v), want)
    assert torch.equal(attn(x.q, x.k, x.v, out=far), want)


def same_bits(pack: Pack, family: str) -> None:
    """Twenty runs, any batch position: the same bits."""
    wanted = Wanted(family, 64, "fp16", "bottom_right")
    attn, x = pack.open(wanted), tensors(wanted, (4, 8, 8, 200, 200))
    first = attn(x.q, x.k, x.v)
    for _ in range(20):
        assert torch.equal(attn(x.q, x.k, x.v), first)
    alone = attn(x.q[2:3], x.k[2:3], x.v[2:3])
    assert torch.equal(alone, first[2:3])


def streams(pack: Pack, family: str) -> None:
    """Inputs made on a side stream are read in that stream's order, and workspaces do not mix."""
    wanted = Wanted(family, 64, "fp16")
    attn, x = pack.open(wanted), tensors(wanted, (2, 4, 4, 300, 300))
    want = attn(x.q, x.k, x.v)
    side = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for stream in side * 5:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)  # the copy below is still pending when attn is called
            late = torch.empty_like(x.q).copy_(x.q)
            results.append(attn(late, x.k, x.v))
    torch.cuda.synchronize()
    assert all(torch.equal(result, want) for result in results)


def threads(pack: Pack, family: str) -> None:
    """Calls from fresh threads find the device's context."""
    from concurrent.futures import ThreadPoolExecutor

    wanted = Wanted(family, 64, "fp16")
    attn, x = pack.open(wanted), tensors(wanted, (1, 2, 2, 100, 100))
    want = attn(x.q, x.k, x.v)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: attn(x.q, x.k, x.v), range(16)))
    assert all(torch.equal(result, want) for result in results)


def graph(pack: Pack, family: str) -> None:
    """Captured after warm-up, replayed on new inputs, with other work between."""
    wanted = Wanted(family, 64, "fp16", "bottom_right")
    attn, x = pack.open(wanted), tensors(wanted, (1, 4, 2, 128, 128))
    attn(x.q, x.k, x.v)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        out = attn(x.q, x.k, x.v)
    for seed in range(3):
        y = tensors(wanted, (1, 4, 2, 128, 128), seed + 10)
        for mine, new in zip((x.q, x.k, x.v), (y.q, y.k, y.v), strict=True):
            mine.copy_(new)
        torch.full((1 << 22,), torch.nan, device=DEVICE)  # whatever the allocator hands out meanwhile
        captured.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, attn(y.q, y.k, y.v))


def graph_before_warm_up(pack: Pack, family: str) -> None:
    """A kernel that was never called refuses to be captured, in words."""
    wanted = Wanted(family, 64, "fp16")
    kernel = pack.kernel(wanted, torch_host())
    problem = Problem(1, 1, 1, 8, 8, *((512, 512, 64),) * 4, device="cuda:0", library="torch")
    captured = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(captured):
            torch.zeros(1, device=DEVICE)
            kernel.executable.prepare(problem)
    except LaunchError as error:
        assert "before the capture" in str(error)
        return
    raise AssertionError("the capture was not refused")


def empty(pack: Pack, family: str) -> None:
    """Sizes of zero: no launch, and zeros where there are rows."""
    attn = pack.open(Wanted(family, 64, "fp16"))

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float16, device=DEVICE)

    assert attn(zeros(0, 2, 5, 64), zeros(0, 2, 5, 64), zeros(0, 2, 5, 64)).shape == (0, 2, 5, 64)
    out, lse = attn(zeros(1, 2, 5, 64) + 1, zeros(1, 2, 0, 64), zeros(1, 2, 0, 64), return_lse=True)
    assert not out.any()
    assert bool((lse == -torch.inf).all())


def row_ranges(pack: Pack) -> None:
    """The paper's form, one CTA for each head, has the bits of every wider form."""
    wanted = Wanted("cuda_fa1", 64, "fp16", "bottom_right")
    x = tensors(wanted, (1, 2, 2, 777, 777))
    attn = pack.open(wanted)
    q, k, v = (t.contiguous() for t in (x.q, x.k, x.v))
    want = attn(q, k, v)
    strides = (2 * 777 * 64, 777 * 64, 64)
    problem = Problem(1, 2, 2, 777, 777, strides, strides, strides, strides, device="cuda:0", library="torch")
    for count in (1, 2, 5, 12):
        out = torch.full_like(q, torch.nan)
        launch = attn.kernel.executable.prepare(problem, count)  # type: ignore[call-arg]
        launch(q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), 0, 0, 64**-0.5)
        assert torch.equal(out, want), f"{count} row ranges"
