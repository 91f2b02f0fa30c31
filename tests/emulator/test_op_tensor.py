# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""mma.sync, ldmatrix, movmatrix: fragments by the manual's formulas, products against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from flashgen.emulator import In, Module, Out, PtxError, Schedule

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_LANES = np.arange(32)
_GROUP, _THREAD = _LANES // 4, _LANES % 4  # groupID and threadID_in_group
Place = Callable[[int], tuple[np.ndarray, np.ndarray]]  # element i of a fragment -> its row and column, by lane


@dataclass(frozen=True)
class Shape:
    """A shape of mma.sync, with the PTX manual's fragment formulas.

    Attributes:
        a, b: element i -> (row, column) of A, of B.
        per_register: elements of A or B in a register.
    """

    name: str
    k: int
    per_register: int
    a: Place
    b: Place
    rows: int = 16

    def count(self, which: str) -> int:
        return {"a": self.rows, "b": 8, "c": self.rows * 8 // self.k}[which] * self.k // 32


def _a_k16(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _GROUP + (0 if i < 2 or 4 <= i < 6 else 8), _THREAD * 2 + (i & 1) + (8 if i >= 4 else 0)


def _b_k16(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _THREAD * 2 + (i & 1) + (8 if i >= 2 else 0), _GROUP


def _a_tf32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _GROUP + (8 if i in (1, 3) else 0), _THREAD + (4 if i >= 2 else 0)


def _b_tf32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _THREAD + (4 if i else 0), _GROUP


def _a_bytes_k32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _GROUP + (0 if i < 4 or 8 <= i < 12 else 8), _THREAD * 4 + (i & 3) + (16 if i >= 8 else 0)


def _b_bytes_k32(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _THREAD * 4 + (i & 3) + (16 if i >= 4 else 0), _GROUP


def _c(i: int) -> tuple[np.ndarray, np.ndarray]:
    return _GROUP + (0 if i < 2 else 8), _THREAD * 2 + (i & 1)


_K16 = Shape("m16n8k16", 16, 2, _a_k16, _b_k16)
_K8 = Shape("m16n8k8", 8, 2, _a_k16, _b_k16)
_TF32_K8 = Shape("m16n8k8", 8, 1, _a_tf32, _b_tf32)
_TF32_K4 = Shape("m16n8k4", 4, 1, _a_tf32, _b_tf32)
_BYTES_K16 = Shape("m16n8k16", 16, 4, _a_bytes_k32, _b_bytes_k32)
_BYTES_K32 = Shape("m16n8k32", 32, 4, _a_bytes_k32, _b_bytes_k32)
_F64 = Shape("m8n8k4", 4, 1, _a_tf32, _b_tf32, rows=8)
# shape, types of A and B, accumulator
_PRODUCTS = [
    (_K16, "f16", "f16", "f32"), (_K8, "f16", "f16", "f32"), (_K16, "f16", "f16", "f16"), (_K8, "f16", "f16", "f16"),
    (_K16, "bf16", "bf16", "f32"), (_K8, "bf16", "bf16", "f32"), (_TF32_K8, "tf32", "tf32", "f32"),
    (_TF32_K4, "tf32", "tf32", "f32"), (_F64, "f64", "f64", "f64"),
    *((shape, a, b, "s32") for shape in (_BYTES_K16, _BYTES_K32) for a in ("s8", "u8") for b in ("s8", "u8")),
    *((_BYTES_K32, a, b, acc) for acc in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
]  # fmt: skip
_IDS = [f"{shape.name}.{acc}.{a}.{b}" for shape, a, b, acc in _PRODUCTS]
_TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "s8": np.int8, "u8": np.uint8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def words(t: str) -> type:
    """A register of the type."""
    return np.uint64 if t == "f64" else np.uint32


def fragment(matrix: np.ndarray, place: Place, count: int, word: type = np.uint32) -> np.ndarray:
    """The registers of all lanes, (register, lane), with ``count`` elements in each lane."""
    elements = np.stack([matrix[place(i)] for i in range(count)], axis=-1)  # (lane, element)
    return np.ascontiguousarray(np.ascontiguousarray(elements).view(word).T)


def unfragment(registers: np.ndarray, dtype: type, rows: int, columns: int) -> np.ndarray:
    """The matrix of an accumulator's registers."""
    elements = np.ascontiguousarray(registers.T).view(dtype)
    matrix = np.zeros((rows, columns), dtype)
    for i in range(elements.shape[1]):
        matrix[_c(i)] = elements[:, i]
    return matrix


def multiply(
    product: tuple[Shape, str, str, str], a: np.ndarray, b: np.ndarray, c: np.ndarray | None, *, in_place: bool = False, modifier: str = ""
) -> np.ndarray:  # fmt: skip
    """D of one warp. ``c`` None: literal zeros. ``in_place``: C's registers are D's, as a loop has it."""
    shape, left, right, acc = product
    na, nb = shape.count("a") // shape.per_register, shape.count("b") // shape.per_register
    nc = shape.count("c") // (2 if acc == "f16" else 1)
    bits = 8 * np.dtype(words(acc)).itemsize
    regs = {letter: [f"%{letter}{k}" for k in range(n)] for letter, n in zip("abcd", (na, nb, nc, nc), strict=True)}
    zero = {"f32": "0f00000000", "f64": "0d0000000000000000"}.get(acc, "0")
    third = regs["c"] if c is not None else [zero] * nc
    first = regs["c"] if in_place else regs["d"]

    def each(letters: list[str], pattern: str) -> str:
        return " ".join(pattern.format(at=4 * bits * k, name=name) for k, name in enumerate(letters))

    text = f"""{_HEAD.replace("sm_80", "sm_89")}
.entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
    .reg .b{bits} %a<8>, %b<8>, %c<4>, %d<4>; .reg .b32 %t; .reg .b64 %x<4>;
    mov.u32 %t, %tid.x;
    ld.param.u64 %x0, [pa]; ld.param.u64 %x1, [pb]; ld.param.u64 %x2, [pc]; ld.param.u64 %x3, [pd];
    {" ".join(f"mad.wide.u32 %x{k}, %t, {bits // 8}, %x{k};" for k in range(4))}
    {each(regs["a"], f"ld.global.b{bits} {{name}}, [%x0+{{at}}];")}
    {each(regs["b"], f"ld.global.b{bits} {{name}}, [%x1+{{at}}];")}
    {each(regs["c"], f"ld.global.b{bits} {{name}}, [%x2+{{at}}];")}
    mma.sync.aligned.{shape.name}.row.col{modifier}.{acc}.{left}.{right}.{acc}
        {{{", ".join(first)}}}, {{{", ".join(regs["a"])}}}, {{{", ".join(regs["b"])}}}, {{{", ".join(third)}}};
    {each(first, f"st.global.b{bits} [%x3+{{at}}], {{name}};")}
    ret;
}}"""
    start = np.zeros((shape.rows, 8), _TYPES[acc]) if c is None else c
    out = np.zeros((nc, 32), words(acc))
    registers = [
        fragment(a, shape.a, shape.count("a"), words(left)),
        fragment(b, shape.b, shape.count("b"), words(right)),
        fragment(start, _c, shape.count("c"), words(acc)),
    ]
    report = Module(text).launch("k", 1, 32, [*(In(r) for r in registers), Out(out)])
    report.raise_for_findings()
    assert report.instructions["mma"] == 1
    return unfragment(out, _TYPES[acc], shape.rows, 8)


def random_matrix(shape: tuple[int, int], t: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if t[0] in "su":
        info = np.iinfo(_TYPES[t])
        return rng.integers(info.min, info.max, shape, _TYPES[t], endpoint=True)
    x = rng.standard_normal(shape)
    if t == "tf32":
        return (x.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)
    return x.astype(_TYPES[t])


@pytest.mark.parametrize("product", _PRODUCTS, ids=_IDS)
def test_the_identity_shows_where_each_element_lies(product: tuple[Shape, str, str, str]) -> None:
    """A of ones and zeros picks each row of B once, so one misplaced element shows."""
    shape, left, right, _ = product
    numbers = np.arange(shape.k * 8).reshape(shape.k, 8)
    if right in ("e4m3", "e5m2", "s8", "u8"):  # few numbers: every bit of the index in a pass of its own
        passes = [(numbers >> bit & 1).astype(_TYPES[right]) for bit in range(8)]
    else:
        passes = [numbers.astype(_TYPES[right])]
    for b in passes:
        for shift in range(0, max(shape.k, shape.rows), min(shape.k, shape.rows)):
            a = np.eye(shape.rows, shape.k, shift if shape.k > shape.rows else -shift).astype(_TYPES[left])
            d = multiply(product, a, b, None)
            np.testing.assert_array_equal(d.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def fused(a: float, b: float, c: float, acc: str) -> float:
    """a b + c, rounded once to fp32 (or to double, if that is what is summed)."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    nearest = float(exact)  # correctly rounded to double
    if acc == "f64" or exact == Fraction(nearest):
        return nearest if acc == "f64" else float(np.float32(nearest))
    # To odd, so that the second rounding is harmless.
    bits = np.float64(nearest).view(np.int64)
    if abs(Fraction(nearest)) > abs(exact):
        bits -= 1
    return float(np.float32((bits | np.int64(1)).view(np.float64)))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("product", [p for p in _PRODUCTS if p[3] != "s32"], ids=[i for i in _IDS if "s32" not in i])
def test_products_to_the_bit(product: tuple[Shape, str, str, str], in_place: bool, each_executor: str) -> None:
    """The machine adds in fp32, one product after the other; the other executor in double, and rounds once."""
    shape, left, right, acc = product
    a, b = random_matrix((shape.rows, shape.k), left, 1), random_matrix((shape.k, 8), right, 2)
    c = np.random.default_rng(3).standard_normal((shape.rows, 8)).astype(_TYPES[acc])
    expected = np.zeros((shape.rows, 8), np.float64)
    for m, n in np.ndindex(shape.rows, 8):
        total = float(c[m, n])
        for k in range(shape.k):
            total = fused(a[m, k], b[k, n], total, acc)
        if each_executor == "numpy" and acc != "f64":
            total = np.float32(math.fsum([c[m, n], *(a[m].astype(float) * b[:, n].astype(float))]))
        expected[m, n] = total
    np.testing.assert_array_equal(multiply(product, a, b, c, in_place=in_place), expected.astype(_TYPES[acc]))


@pytest.mark.parametrize("product", _PRODUCTS, ids=_IDS)
def test_exact_sums_of_integers(product: tuple[Shape, str, str, str]) -> None:
    shape, left, right, acc = product
    rng = np.random.default_rng(4)
    low = 0 if "u8" in (left, right) else -8
    a, b = (rng.integers(low, 9, size).astype(np.float32) for size in ((shape.rows, shape.k), (shape.k, 8)))
    c = rng.integers(-8, 9, (shape.rows, 8)).astype(np.float32)
    d = multiply(product, a.astype(_TYPES[left]), b.astype(_TYPES[right]), c.astype(_TYPES[acc]))
    np.testing.assert_array_equal(d.astype(np.float32), a @ b + c)


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("product", [p for p in _PRODUCTS if p[3] == "s32"], ids=[i for i in _IDS if "s32" in i])
def test_integers_wrap_or_saturate(product: tuple[Shape, str, str, str], saturates: bool) -> None:
    shape, left, right, _ = product
    a, b = random_matrix((16, shape.k), left, 5), random_matrix((shape.k, 8), right, 6)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    limits = np.iinfo(np.int32)
    c = np.where(exact > 0, limits.max - 1000, limits.min + 1000).astype(np.int32)
    total = exact + c
    assert (total > limits.max).any()
    wanted = np.clip(total, limits.min, limits.max) if saturates else total.astype(np.uint32).view(np.int32)
    got = multiply(product, a, b, c, modifier=".satfinite" if saturates else "")
    np.testing.assert_array_equal(got, wanted)


_HALVES, _HALF_SUMS, _TF32 = _PRODUCTS[0], _PRODUCTS[2], _PRODUCTS[6]


def test_special_values() -> None:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    a[0, 3], a[1, 4], a[2, 5], a[3, 6] = np.inf, np.nan, np.inf, 6e-8  # the least subnormal
    b[3, 0], b[5, 0], b[6, 0] = 2.0, 0.0, 65504.0
    d = multiply(_HALVES, a, b, None)
    assert d[0, 0] == np.inf and d[3, 0] == np.float32(2.0**-24) * 65504
    nans = np.isnan(d)
    # inf * 0 where A is infinite, NaN where A is NaN, canonical everywhere.
    assert nans[0, 1:].all() and nans[1].all() and nans[2].all() and not nans[3:].any()
    assert (d.view(np.uint32)[nans] == 0x7FFFFFFF).all()
    high = multiply(_HALF_SUMS, np.full((16, 16), 100, np.float16), np.full((16, 8), 100, np.float16), None)
    assert np.isinf(high).all()


def test_tf32_takes_no_notice_of_the_lowest_bits() -> None:
    a, b = random_matrix((16, 8), "tf32", 5), random_matrix((8, 8), "tf32", 6)
    noisy = (a.view(np.uint32) | 0x1FFF).view(np.float32)
    np.testing.assert_array_equal(multiply(_TF32, noisy, b, None), multiply(_TF32, a, b, None))


def load_matrices(count: int, trans: bool, space: str, tile: np.ndarray, offsets: np.ndarray, order="round_robin"):
    """ldmatrix of a tile of bytes in shared memory; lane l gives tile offset offsets[l]. Registers, and the report."""
    names = [f"%d{k}" for k in range(count)]
    generic = "cvta.shared.u64 %x2, %x2;" if not space else ""
    text = f"""{_HEAD}
.entry k(.param .u64 tile, .param .u64 offsets, .param .u64 out)
{{
    .reg .b32 %t, %r<4>, %d<4>; .reg .b64 %x<6>; .reg .pred %p;
    .shared .align 128 .b8 memory[{tile.nbytes}];
    mov.u32 %t, %tid.x; mov.u32 %r0, memory;
    ld.param.u64 %x0, [tile]; mov.u32 %r1, %t;
    COPY:
    mad.wide.u32 %x1, %r1, 4, %x0; ld.global.b32 %r2, [%x1]; mad.lo.u32 %r3, %r1, 4, %r0; st.shared.b32 [%r3], %r2;
    add.u32 %r1, %r1, 32; setp.lt.u32 %p, %r1, {tile.nbytes // 4}; @%p bra COPY;
    bar.sync 0;
    ld.param.u64 %x3, [offsets]; mad.wide.u32 %x3, %t, 4, %x3; ld.global.b32 %r1, [%x3];
    add.u32 %r0, %r0, %r1; cvt.u64.u32 %x2, %r0; {generic}
    ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}{space}.b16 {{{", ".join(names)}}}, [%x2];
    ld.param.u64 %x4, [out]; mad.wide.u32 %x4, %t, 4, %x4;
    {" ".join(f"st.global.b32 [%x4+{128 * k}], {name};" for k, name in enumerate(names))}
    ret;
}}"""
    out = np.zeros((count, 32), np.uint32)
    args = [In(tile), In(offsets.astype(np.uint32)), Out(out)]
    return out, Module(text).launch("k", 1, 32, args, schedule=Schedule(warps=order))


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count: int, trans: bool, space: str) -> None:
    tile = np.random.default_rng(count).integers(0, 1 << 16, (64, 8), dtype=np.uint16)  # 64 rows of 16 bytes
    rows = np.random.default_rng(7).permutation(64)[:32]
    out, report = load_matrices(count, trans, space, tile, rows * 16)
    report.raise_for_findings()
    elements = np.ascontiguousarray(out).view(np.uint16).reshape(count, 32, 2)
    for matrix in range(count):
        block = tile[rows[8 * matrix : 8 * matrix + 8]]
        for lane in range(32):
            row, column = lane // 4, 2 * (lane % 4)
            wanted = block[column : column + 2, row] if trans else block[row, column : column + 2]
            assert elements[matrix, lane].tolist() == wanted.tolist()


def swizzle(row: np.ndarray, chunk: np.ndarray, mode: str) -> np.ndarray:
    """Byte offset of a 16-byte chunk in a tile with rows of 64 halves."""
    return {
        "none": row * 128 + 16 * chunk,
        "xor": row * 128 + 16 * (chunk ^ (row & 7)),
        "padded": row * 144 + 16 * chunk,
        "two bits": row * 128 + 16 * (chunk ^ ((row >> 1) & 3)),
    }[mode]


@pytest.mark.parametrize("mode,waves", [("none", 32), ("xor", 4), ("padded", 4), ("two bits", 8)])
def test_bank_conflicts_by_phase(mode: str, waves: int) -> None:
    """Every matrix is a phase of 8 rows of 16 bytes: 4 wavefronts for x4 at best, 32 at worst."""
    tile = np.zeros((32, 72), np.uint16)
    row, chunk = _LANES & 15, 2 + (_LANES >> 4)
    _, report = load_matrices(4, False, ".shared", tile, swizzle(row, chunk, mode))
    report.raise_for_findings()
    (line,) = [line for line in report.lines if line.unit == "load.matrix"]
    assert (line.executed, line.wavefronts, line.conflicts) == (1, waves, waves - 4)


@pytest.mark.parametrize("count", [1, 2])
def test_only_the_lanes_that_name_rows_are_looked_at(count: int) -> None:
    tile = np.arange(64, dtype=np.uint32)
    offsets = np.where(8 * count > _LANES, _LANES % 16 * 16, 999_999)
    out, report = load_matrices(count, False, ".shared", tile, offsets)
    report.raise_for_findings()
    (line,) = [line for line in report.lines if line.unit == "load.matrix"]
    assert line.wavefronts == count and out.ravel().tolist() == list(range(32 * count))


def test_ldmatrix_faults_are_told() -> None:
    tile = np.zeros(256, np.uint32)
    offsets = _LANES * 16
    offsets[5] += 8
    _, report = load_matrices(4, False, ".shared", tile, offsets)
    assert [(f.kind, f.lanes) for f in report.of_kind("misaligned")] == [("misaligned", 1 << 5)]
    offsets[5] = 1024 - 8 + 16
    out, report = load_matrices(4, False, ".shared", tile, offsets)
    assert (out[0, 20:24] == 0xFFFFFFFF).all() and not out[1:].any()
    assert [(f.kind, f.lanes) for f in report.of_kind("out-of-bounds")] == [("out-of-bounds", 1 << 5)]


_IN_ONE_WARP = f"""{_HEAD}
.entry k(.param .u64 out)
{{
    .reg .b32 %t, %s, %r<4>, %d<4>; .reg .b64 %x; .reg .pred %p;
    .shared .align 16 .b8 tile[512];
    mov.u32 %t, %tid.x; mov.u32 %s, tile; mad.lo.u32 %r0, %t, 16, %s; xor.b32 %r1, %t, 1; mad.lo.u32 %r1, %r1, 16, %s;
    st.shared.v4.b32 [%r0], {{%t, %t, %t, %t}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%d0, %d1, %d2, %d3}}, [%r0];
    add.u32 %r2, %t, 100;
    st.shared.v4.b32 [%r1], {{%r2, %r2, %r2, %r2}};
    bar.warp.sync -1;
    ld.shared.b32 %r3, [%r0+4];
    ld.param.u64 %x, [out]; mad.wide.u32 %x, %t, 4, %x; st.global.b32 [%x], %r3; ret;
}}"""


@pytest.mark.parametrize("change,races", [
    (("", ""), False),
    (("bar.warp.sync -1;\n    ldmatrix", "ldmatrix"), True),  # written by one lane, read for others
    (("ldmatrix", "ld.shared.b32 %r3, [%r0]; ldmatrix"), True),  # one lane's own read, then another's write
    (("ldmatrix", "ld.shared.b32 %r3, [%r0]; bar.warp.sync -1; ldmatrix"), False),
    (("add.u32 %r2", "ld.shared.b32 %r3, [%r1]; add.u32 %r2"), False),  # by the lane that will write there
    (("add.u32 %r2", "ld.shared.b32 %r3, [%r0]; add.u32 %r2"), True),
])  # fmt: skip
@pytest.mark.parametrize("order", ["round_robin", "reverse", "random"])
def test_within_a_warp_ldmatrix_reads_at_once(change: tuple[str, str], races: bool, order: str) -> None:
    """What the warp does after it comes after it; what other lanes wrote before needs a warp barrier."""
    text = _IN_ONE_WARP.replace(*change) if change[0] else _IN_ONE_WARP
    out = np.zeros(32, np.uint32)
    report = Module(text).launch("k", 1, 32, [Out(out)], schedule=Schedule(warps=order))
    assert {f.kind for f in report.findings} == ({"race"} if races else set()), str(report)
    assert out.tolist() == [(t ^ 1) + 100 for t in range(32)]


def test_between_warps_ldmatrix_is_a_read_like_any() -> None:
    text = _IN_ONE_WARP.replace("xor.b32 %r1, %t, 1;", "xor.b32 %r1, %t, 32;").replace("tile[512]", "tile[1024]")
    for order in ("round_robin", "reverse", "random"):
        report = Module(text).launch("k", 1, 64, [Out(np.zeros(64, np.uint32))], schedule=Schedule(warps=order))
        assert {f.kind for f in report.findings} == {"race"}
    fixed = text.replace("bar.warp.sync -1;", "bar.sync 0;").replace("add.u32 %r2", "bar.sync 0; add.u32 %r2")
    Module(fixed).launch("k", 1, 64, [Out(np.zeros(64, np.uint32))]).raise_for_findings()


@pytest.mark.parametrize("order", ["round_robin", "reverse", "random"])
def test_movmatrix(order: str) -> None:
    block = np.random.default_rng(0).integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    text = f"""{_HEAD}
.entry k(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %t, %a, %d; .reg .b64 %x<2>;
    mov.u32 %t, %tid.x; ld.param.u64 %x0, [in]; mad.wide.u32 %x0, %t, 4, %x0; ld.global.b32 %a, [%x0];
    movmatrix.sync.aligned.m8n8.trans.b16 %a, %a;
    ld.param.u64 %x1, [out]; mad.wide.u32 %x1, %t, 4, %x1; st.global.b32 [%x1], %a; ret;
}}"""
    out = np.zeros((8, 8), np.uint16)
    Module(text).launch("k", 1, 32, [In(block), Out(out)], schedule=Schedule(warps=order)).raise_for_findings()
    np.testing.assert_array_equal(out, block.T)


_DIVERGED = f"""{_HEAD}
.entry k(.param .u64 out)
{{
    .reg .b32 %t, %a, %u, %n; .reg .b64 %x; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; mov.u32 %u, 0; and.b32 %n, %t, 31; shr.u32 %n, %n, 1; mul.lo.u32 %a, %t, 0x10001;
    LOOP: add.u32 %u, %u, 1; setp.lt.u32 %p, %u, %n; @%p bra LOOP;
    movmatrix.sync.aligned.m8n8.trans.b16 %a, %a;
    ld.param.u64 %x, [out]; mad.wide.u32 %x, %t, 4, %x; st.global.b32 [%x], %a; ret;
}}"""


@pytest.mark.parametrize("order", ["round_robin", "reverse", "random"])
def test_a_whole_warp_comes_together(order: str) -> None:
    out = np.zeros((32, 2), np.uint16)
    Module(_DIVERGED).launch("k", 1, 32, [Out(out)], schedule=Schedule(warps=order)).raise_for_findings()
    block = np.repeat(np.arange(32), 2).reshape(8, 8)
    np.testing.assert_array_equal(out.reshape(8, 8), block.T)


def test_a_warp_that_is_not_whole_is_told() -> None:
    for change, missing in (("LOOP:", 0xFF000000), ("@%q movmatrix", 0xFFFFFF00)):
        text = _DIVERGED.replace("LOOP:", "setp.ge.u32 %q, %t, 24; @%q exit; LOOP:") if change == "LOOP:" else (
            _DIVERGED.replace("movmatrix", "setp.lt.u32 %q, %t, 8; @%q movmatrix")
        )  # fmt: skip
        report = Module(text).launch("k", 1, 32, [Out(np.zeros(32, np.uint32))])
        assert missing in {f.lanes for f in report.of_kind("warp-sync")}, str(report)


@pytest.mark.parametrize("opcode,needs", [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%d0,%d1,%d2,%d3}", 80),
    ("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1}, {%b0}, {%d0,%d1,%d2,%d3}", 80),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1}, {%b0}, {%d0,%d1,%d2,%d3}", 75),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, [%a0]", 75),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%d0,%d1,%d2,%d3}", 89),
    ("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0", 75),
    ("cp.async.ca.shared.global [%a0], [%x0], 4", 80),
    ("cp.async.commit_group", 80),
])  # fmt: skip
def test_an_architecture_that_lacks_the_instruction_is_refused(opcode: str, needs: int) -> None:
    def text(arch: int) -> str:
        return f""".version 8.0\n.target sm_{arch}\n.address_size 64
.entry k() {{ .reg .b32 %a<4>, %b<4>, %d<4>; .reg .b64 %x<2>; {opcode}; ret; }}"""

    Module(text(needs))
    with pytest.raises(PtxError, match=f"needs sm_{needs}; this module is for sm_70"):
        Module(text(70))


@pytest.mark.parametrize("operands", [
    "{%d0,%d1,%d2,%d3}, {%a0,%a1,%a2}, {%b0,%b1}, {%d0,%d1,%d2,%d3}",
    "{%d0,%d1}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%d0,%d1,%d2,%d3}",
    "{%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0}, {%d0,%d1,%d2,%d3}",
])  # fmt: skip
def test_fragments_of_the_wrong_size_are_refused(operands: str) -> None:
    opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    with pytest.raises(PtxError, match="registers there"):
        Module(f"{_HEAD}.entry k() {{ .reg .b32 %a<4>, %b<4>, %d<4>; {opcode} {operands}; ret; }}")
