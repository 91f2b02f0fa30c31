# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""ld and st in every space, width, vector and addressing form."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import In, InOut, Module, Out, Struct

pytestmark = pytest.mark.usefixtures("each_executor")
_HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
_THREADS = 40  # a full warp and a part of one


def launch(body: str, *arrays, params: int = 0, extra: str = "", shared: int = 0, args: tuple = ()):
    names = ", ".join(f".param .u64 p{k}" for k in range(len(arrays) or params))
    text = f"""{_HEAD}{extra}
.entry k({names})
{{
    .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %x<20>; .reg .f64 %y<9>; .reg .pred %p<4>;
    mov.u32 %r0, %tid.x;
    {body}
    ret;
}}"""
    report = Module(text).launch("k", 1, _THREADS, args or arrays, shared=shared)
    report.raise_for_findings()
    return report


def pattern(size: int, dtype=np.uint8) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).view(dtype)


_KINDS = [
    (t, r) for t, registers in {
        "u8": (16, 32, 64), "s8": (16, 32, 64), "b8": (16, 32), "u16": (16, 32, 64), "s16": (16, 32, 64), "b16": (16,),
        "u32": (32, 64), "s32": (32, 64), "b32": (32,), "f32": (32,), "u64": (64,), "s64": (64,), "b64": (64,), "f64": (64,),
    }.items() for r in registers
]  # fmt: skip


@pytest.mark.parametrize("kind,register", _KINDS)
def test_load_extends_by_the_type(kind: str, register: int) -> None:
    width = int(kind[1:])
    source, out = pattern(_THREADS * width // 8), np.zeros(_THREADS, f"u{register // 8}")
    name = {16: "%h1", 32: "%r1", 64: "%x5"}[register]
    launch(
        f"""ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];
        mad.wide.u32 %x1, %r0, {width // 8}, %x1; mad.wide.u32 %x2, %r0, {register // 8}, %x2;
        ld.global.{kind} {name if kind[0] != "f" else {32: "%f1", 64: "%y1"}[width]}, [%x1];
        {"mov.b32 %r1, %f1;" if kind == "f32" else "mov.b64 %x5, %y1;" if kind == "f64" else ""}
        st.global.b{register} [%x2], {name};""",
        In(source), Out(out),
    )  # fmt: skip
    signed = "i" if kind[0] == "s" else "u"
    np.testing.assert_array_equal(out, source.view(f"{signed}{width // 8}").astype(np.int64).astype(out.dtype))


@pytest.mark.parametrize("kind,register", [k for k in _KINDS if k[0][0] == "u"])
def test_store_keeps_the_low_bits(kind: str, register: int) -> None:
    width = int(kind[1:])
    source, out = pattern(_THREADS * register // 8), np.zeros(_THREADS, f"u{width // 8}")
    name = {16: "%h1", 32: "%r1", 64: "%x5"}[register]
    launch(
        f"""ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];
        mad.wide.u32 %x1, %r0, {register // 8}, %x1; mad.wide.u32 %x2, %r0, {width // 8}, %x2;
        ld.global.b{register} {name}, [%x1]; st.global.{kind} [%x2], {name};""",
        In(source), Out(out),
    )  # fmt: skip
    np.testing.assert_array_equal(out, source.view(f"u{register // 8}").astype(out.dtype))


_SPACES = {
    "global": "ld.param.u64 %x3, [p2]; mad.wide.u32 %x3, %r0, {size}, %x3;",
    "shared": "mov.u32 %r9, tile; mad.lo.u32 %r9, %r0, {size}, %r9; cvt.u64.u32 %x3, %r9;",
    "local": "mov.u64 %x3, own; add.u64 %x3, %x3, 0;",
    "generic shared": "mov.u64 %x3, tile; mad.wide.u32 %x3, %r0, {size}, %x3; cvta.shared.u64 %x3, %x3;",
    "generic local": "mov.u64 %x3, own; cvta.local.u64 %x3, %x3;",
    "generic global": "ld.param.u64 %x3, [p2]; mad.wide.u32 %x3, %r0, {size}, %x3;",
}
_VECTORS = [
    ("u8", 2),
    ("u8", 4),
    ("u16", 2),
    ("u16", 4),
    ("b32", 2),
    ("b32", 4),
    ("f32", 4),
    ("b64", 2),
    ("f64", 2),
    ("b32", 8),
    ("b64", 4),
]


@pytest.mark.parametrize("space", _SPACES)
@pytest.mark.parametrize("kind,count", [(k, 1) for k in ("u8", "u16", "b32", "b64")] + _VECTORS)
def test_there_and_back(space: str, kind: str, count: int) -> None:
    """Source to registers, to the space, back to registers, to the output."""
    width, size = int(kind[1:]), int(kind[1:]) // 8 * count
    prefix = {"f32": "%f", "f64": "%y"}.get(kind) or {8: "%h", 16: "%h", 32: "%r1", 64: "%x1"}[width]
    registers = [f"{prefix}{k + (0 if prefix[1] in 'hr' and prefix != '%h' else 1)}" for k in range(count)]
    vector = f".v{count}" if count > 1 else ""
    operand = "{" + ", ".join(registers) + "}" if count > 1 else registers[0]
    clear = "".join(f"mov.b{register_bits(kind)} {r}, 0;" for r in registers)
    dot = "" if space.startswith("generic") else f".{space}"
    source, out, scratch = (
        pattern(_THREADS * size),
        np.zeros(_THREADS * size, np.uint8),
        np.zeros(_THREADS * size, np.uint8),
    )
    launch(
        f"""
        .shared .align 32 .b8 tile[{_THREADS * size}]; .local .align 32 .b8 own[64];
        ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mad.wide.u32 %x1, %r0, {size}, %x1; mad.wide.u32 %x2, %r0, {size}, %x2;
        {_SPACES[space].format(size=size)}
        mov.u64 %x4, %x2;
        ld.global{vector}.{kind} {operand}, [%x1];
        st{dot}{vector}.{kind} [%x3], {operand};
        {clear}
        ld{dot}{vector}.{kind} {operand}, [%x3];
        st.global{vector}.{kind} [%x4], {operand};""".replace("%x4", "%x9"),
        In(source), Out(out), InOut(scratch),
    )  # fmt: skip
    np.testing.assert_array_equal(out, source)


def register_bits(kind: str) -> int:
    return max(16, int(kind[1:]))


@pytest.mark.parametrize("modifiers", ["volatile.global", "relaxed.gpu.global", "global.cg", "global.nc", "global.L1::no_allocate",
                                       "global.L1::evict_last.L2::128B", "global.nc.L1::no_allocate.L2::256B", "weak.global"])  # fmt: skip
def test_load_modifiers(modifiers: str) -> None:
    source, out = np.arange(_THREADS, dtype=np.float32), np.zeros(_THREADS, np.float32)
    launch(
        f"""ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mad.wide.u32 %x1, %r0, 4, %x1; mad.wide.u32 %x2, %r0, 4, %x2;
        ld.{modifiers}.f32 %f1, [%x1]; st.global.f32 [%x2], %f1;""",
        In(source), Out(out),
    )  # fmt: skip
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize(
    "policy", ["evict_last.b64 %x5, 1.0", "evict_first.L2::evict_unchanged.b64 %x5, 0.25", "evict_normal.b64 %x5"]
)
def test_cache_policies_change_nothing(policy: str) -> None:
    source, out = np.arange(_THREADS, dtype=np.float32), np.zeros(_THREADS, np.float32)
    launch(
        f"""createpolicy.fractional.L2::{policy};
        ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; mad.wide.u32 %x1, %r0, 4, %x1; mad.wide.u32 %x2, %r0, 4, %x2;
        ld.global.L1::evict_last.L2::cache_hint.f32 %f1, [%x1], %x5; st.global.L2::cache_hint.f32 [%x2], %f1, %x5;""",
        In(source), Out(out),
    )  # fmt: skip
    np.testing.assert_array_equal(out, source)


def test_constants_and_module_variables() -> None:
    extra = """
.const .align 4 .f32 table[4] = {1.5, 0f40200000, -3, 4e0};
.global .align 8 .u64 big = 0x123456789abcdef0;
.global .align 4 .u32 counter;
.visible .const .align 2 .b8 bytes[6] = {1, 2, 0xff};
"""
    out = np.zeros((_THREADS, 4), np.float64)
    report = launch(
        """ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r0, 32, %x1;
        and.b32 %r1, %r0, 3; mov.u64 %x2, table; mad.wide.u32 %x2, %r1, 4, %x2;
        ld.const.f32 %f1, [%x2]; cvt.f64.f32 %y1, %f1; st.global.f64 [%x1], %y1;
        ld.global.u64 %x3, [big]; cvt.rn.f64.u64 %y2, %x3; st.global.f64 [%x1+8], %y2;
        ld.const.u8 %h1, [bytes+2]; cvt.rn.f64.u16 %y3, %h1; st.global.f64 [%x1+16], %y3;
        cvta.const.u64 %x4, %x2; ld.f32 %f2, [%x4]; cvt.f64.f32 %y4, %f2; st.global.f64 [%x1+24], %y4;
        red.global.add.u32 [counter], 1;""",
        Out(out), extra=extra,
    )  # fmt: skip
    expected = np.array([1.5, 2.5, -3.0, 4.0])[np.arange(_THREADS) & 3]
    np.testing.assert_array_equal(out[:, 0], expected)
    np.testing.assert_array_equal(out[:, 3], expected)
    assert (out[:, 1] == float(0x123456789ABCDEF0)).all() and (out[:, 2] == 255).all()
    assert report.traffic["module variables"].store_bytes == 4 * _THREADS


def test_module_variables_keep_their_values() -> None:
    module = Module(f"""{_HEAD}
.global .u32 counter = 5;
.entry k(.param .u64 out) {{ .reg .b64 %x; .reg .b32 %r; atom.global.add.u32 %r, [counter], 2;
    ld.param.u64 %x, [out]; st.global.u32 [%x], %r; ret; }}""")
    seen = []
    for _ in range(3):
        out = np.zeros(1, np.uint32)
        module.launch("k", 1, 1, [Out(out)])
        seen.append(int(out[0]))
    assert seen == [5, 7, 9]


def test_parameters_by_value() -> None:
    """Structures, indexed parameters, sign extension, floats, null pointers."""
    text = f"""{_HEAD}
.entry k(.param .align 8 .b8 s[24], .param .u8 byte, .param .f32 x, .param .f64 y, .param .u64 none, .param .s16 h)
{{
    .reg .b64 %x<9>; .reg .b32 %r<9>; .reg .b16 %h; .reg .f32 %f; .reg .f64 %y; .reg .pred %p;
    ld.param.u64 %x1, [s];
    mov.b64 %x2, s; add.u64 %x2, %x2, 8; ld.param.v2.u32 {{%r1, %r2}}, [%x2]; st.global.v2.u32 [%x1], {{%r1, %r2}};
    mov.u64 %x3, s; cvta.param.u64 %x3, %x3; ld.u32 %r3, [%x3+16]; st.global.u32 [%x1+8], %r3;
    ld.param.u8 %h, [byte]; st.global.u16 [%x1+12], %h;
    ld.param.f32 %f, [x]; st.global.f32 [%x1+16], %f;
    ld.param.f64 %y, [y]; st.global.f64 [%x1+24], %y;
    ld.param.u64 %x4, [none]; setp.eq.u64 %p, %x4, 0; selp.u32 %r4, 77, 0, %p; st.global.u32 [%x1+20], %r4;
    ld.param.s16 %x5, [h]; st.global.u64 [%x1+32], %x5;
    ret;
}}"""
    out = np.zeros(40, np.uint8)
    args = [Struct("<QIIi", InOut(out), 7, 8, -9), 200, 1.25, -2.5, None, -3]
    Module(text).launch("k", 1, 1, args).raise_for_findings()
    assert out[:8].view(np.uint32).tolist() == [7, 8]
    assert out[8:12].view(np.int32)[0] == -9 and out[12:14].view(np.uint16)[0] == 200
    assert out[16:20].view(np.float32)[0] == 1.25 and out[24:32].view(np.float64)[0] == -2.5
    assert out[20:24].view(np.uint32)[0] == 77 and out[32:].view(np.int64)[0] == -3


def test_static_and_dynamic_shared_memory_do_not_overlap() -> None:
    out = np.zeros((_THREADS, 3), np.uint32)
    launch(
        """.shared .align 4 .b8 one[4]; .shared .align 16 .b8 two[16];
        mov.u32 %r1, one; mov.u32 %r2, two; mov.u32 %r3, dynamic;
        ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r0, 12, %x1;
        st.global.u32 [%x1], %r1; st.global.u32 [%x1+4], %r2; st.global.u32 [%x1+8], %r3;""",
        Out(out), extra=".extern .shared .align 128 .b8 dynamic[];\n", shared=64,
    )  # fmt: skip
    one, two, dynamic = (int(x) for x in out[0])
    assert two >= one + 4 and two % 16 == 0 and dynamic >= two + 16 and dynamic % 128 == 0


def test_hints_do_nothing() -> None:
    out = np.zeros(1, np.uint32)
    launch("ld.param.u64 %x1, [p0]; prefetch.global.L2 [%x1]; prefetchu.L1 [%x1]; st.global.u32 [%x1], 1;", Out(out))
    assert out[0] == 1
