# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""Reading PTX: names and scopes, literals, locations, and errors that name their line."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import Module, Out, PtxError
from flashgen.emulator.ptx.ast import Address, Imm, Instruction, Register, Vector
from flashgen.emulator.ptx.operands import literal
from flashgen.emulator.ptx.parser import parse

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def body(text: str, extra: str = "") -> list[Instruction]:
    module = parse(
        f"{_HEAD}{extra}.entry k(.param .u64 p) {{\n.reg .b32 %r<20>; .reg .b64 %x<9>; .reg .pred %p<4>;\n{text}\n}}"
    )
    return [item for item in module.functions["k"].body if isinstance(item, Instruction)]


@pytest.mark.parametrize("text,value,width", [
    ("0", 0, 0), ("42", 42, 0), ("-42", -42, 0), ("0x1F", 31, 0), ("0X1fU", 31, 0), ("017", 15, 0), ("0b101", 5, 0), ("7U", 7, 0),
    ("0f3F800000", 0x3F800000, 32), ("0d3FF0000000000000", 0x3FF0000000000000, 64), ("-0f3F800000", 0xBF800000, 32),
    ("1.5", 0x3FF8000000000000, 64), ("2e3", 0x409F400000000000, 64), ("-.5", 0xBFE0000000000000, 64), ("WARP_SZ", 32, 0),
])  # fmt: skip
def test_literals(text: str, value: int, width: int) -> None:
    assert literal(text) == Imm(value, width)


@pytest.mark.parametrize("text", ["%r1", "abc", "0x", "1x", "", "0f3G"])
def test_what_is_no_literal(text: str) -> None:
    assert literal(text) is None


def test_operands() -> None:
    load, store, pair = body(
        "ld.global.v2.u32 {%r1, _}, [%x1+-16]; st.shared.u32 [%r2], -5; setp.lt.u32 %p1|%p2, %r1, 0x10;"
    )
    assert (
        isinstance(load.operands[0], Vector) and load.operands[1].offset == -16 and load.operands[1].base.name == "%x1"
    )
    assert store.operands == (Address(store.operands[0].base, 0), Imm(-5))
    assert [r.name for r in pair.operands[0]] == ["%p1", "%p2"]


def test_guards() -> None:
    first, second, third = body("@%p1 add.u32 %r1, %r1, 1; @!%p2 add.u32 %r1, %r1, 1; add.u32 %r1, %r1, 1;")
    assert (first.guard.name, first.guard_negated) == ("%p1", False)
    assert (second.guard.name, second.guard_negated) == ("%p2", True)
    assert third.guard is None


def test_a_range_declares_its_registers_and_no_others() -> None:
    (move,) = body("mov.u32 %r19, %r0;")
    assert isinstance(move.operands[0], Register) and move.operands[0].type == "b32"
    with pytest.raises(PtxError, match=r"'%r20' was never declared"):
        body("mov.u32 %r20, %r0;")
    # %r1<3> beside %r<20>: %r12 is the second of the former only where the latter does not reach.
    moves = body(".reg .b64 %y<5>, %y1<3>; mov.u64 %y4, %y12;")
    assert [r.name for r in moves[0].operands] == ["%y4", "%y12"]


def test_inline_assembly_scopes_hide_and_end() -> None:
    """The same block twice, as inlining leaves it: registers and labels are each block's own."""
    block = "{ .reg .b32 t; .reg .pred %p1; mov.u32 t, %r1; L: add.u32 t, t, 1; setp.lt.u32 %p1, t, 5; @%p1 bra L; mov.u32 %r1, t; }"
    instructions = body(f"mov.u32 %r1, 0; {block} {block} ret;")
    first, second = instructions[1].operands[0], instructions[6].operands[0]
    assert first.name == second.name == "t" and first is not second
    branches = [i for i in instructions if i.opcode == "bra"]
    assert branches[0].operands[0] is not branches[1].operands[0]
    with pytest.raises(PtxError, match="'t' was never declared"):
        body(f"{block} mov.u32 %r1, t;")


def test_scopes_run_as_they_read() -> None:
    block = "{ .reg .b32 t; .reg .pred p; mov.u32 t, 0; L: add.u32 t, t, 1; setp.lt.u32 p, t, 5; @p bra L; add.u32 %r, %r, t; }"
    out = np.zeros(1, np.uint32)
    Module(
        f"{_HEAD}.entry k(.param .u64 p) {{ .reg .b32 %r; .reg .b64 %x; mov.u32 %r, 0; {block} {{ {block} }} {block} ld.param.u64 %x, [p]; st.global.u32 [%x], %r; ret; }}"
    ).launch("k", 1, 1, [Out(out)])
    assert out[0] == 15


def test_comments_and_line_numbers() -> None:
    text = f"""{_HEAD}
// a comment; with a semicolon
.entry k()
{{
    /* several
       lines; of comment */ .reg .b32 %r<2>;
    mov.u32 %r0, 1; // behind
    add.u32 %r1,
        %r0, 2;
    ret;
}}"""
    instructions = [i for i in parse(text).functions["k"].body if isinstance(i, Instruction)]
    assert [i.line for i in instructions] == [10, 11, 13]


def test_locations_and_where_they_were_inlined() -> None:
    instructions = body(
        ".loc 1 7 3\nmov.u32 %r1, 0;\n.loc 2 9 1, function_name $L__info_string0, inlined_at 1 8 2\nmov.u32 %r2, 0;\nret;"
    )
    assert instructions[0].location.line == 7 and instructions[0].location.inlined_at is None
    inner = instructions[1].location
    assert (inner.file, inner.line, inner.inlined_at.file, inner.inlined_at.line) == (2, 9, 1, 8)


def test_module_directives() -> None:
    module = parse(f"""{_HEAD}
.file 1 "/x/a.cu"
.extern .shared .align 16 .b8 smem[];
.visible .global .align 8 .v2 .f32 pair = {{1.0, 0f40000000}};
.const .u16 odd[3] = {{1, 2}};
.extern .func (.param .b32 r) other (.param .b64 a);
.visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 4 .b8 s[12])
.maxntid 128, 2, 1
.minnctapersm 2
{{ .pragma "nounroll"; ret; }}
.section .debug_str {{ .b8 1,2,3 }}
""")
    variables = {v.name: v for v in module.variables}
    assert variables["smem"].extern and variables["smem"].align == 16
    assert variables["pair"].size == 8 and variables["pair"].init == np.array([1, 2], np.float32).tobytes()
    assert variables["odd"].init == b"\\1\\0\\2\\0\\0\\0".decode("unicode_escape").encode("latin1")
    kernel = module.functions["k"]
    assert [(p.name, p.size, p.align) for p in kernel.params] == [("a", 8, 8), ("s", 12, 4)]
    assert kernel.max_threads == 256 and module.files == {1: "/x/a.cu"} and module.target == "sm_80"


@pytest.mark.parametrize("statement,message", [
    ("frobnicate.u32 %r1, %r2;", "unknown opcode 'frobnicate.u32'"),
    ("add.u33 %r1, %r2, %r3;", "unknown opcode 'add.u33'"),
    ("wgmma.fence.sync.aligned;", "unknown opcode 'wgmma.fence.sync.aligned'"),
    ("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%x1, {%r1, %r2}];", "unknown opcode 'tex.2d.v4.f32.f32'"),
    ("add.u32 %r1, %r2;", "unknown opcode 'add.u32'"),
    ("add.u32 %x1, %r2, %r3;", "%x1 holds 64 bits, add.u32 takes 32 there"),
    ("add.u32 %r1, %r2, missing;", "'missing' was never declared"),
    ("bra NOWHERE;", "'NOWHERE' was never declared"),
    ("@%r1 add.u32 %r1, %r1, 1;", "'%r1' is not a predicate"),
    ("ld.global.v2.u32 %r1, [%x1];", "ld.global.v2.u32 with 1 elements"),
    ("st.param.u32 [p], %r1;", "a kernel's parameters cannot be written"),
    ("mov.u32 5, %r1;", "writes something that is not a register"),
    ("shfl.sync.bfly.b32 %r1, %r2, 1, 31;", "shfl.sync.bfly.b32 with 4 operands"),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%x1, {%r2, %r3}], [%r4];", "unknown opcode 'cp.async.bulk"),
])  # fmt: skip
def test_errors_name_the_line_at_load(statement: str, message: str) -> None:
    text = f"{_HEAD}.entry k(.param .u64 p) {{\n.reg .b32 %r<9>; .reg .b64 %x<9>; .reg .pred %p<4>;\nmov.u32 %r0, 0;\n{statement}\nret; }}"
    with pytest.raises(PtxError, match=message) as caught:
        Module(text)
    assert caught.value.line == 7 and "PTX line 7" in str(caught.value)


def test_an_unknown_opcode_is_refused_even_in_code_that_is_never_reached() -> None:
    with pytest.raises(PtxError, match="unknown opcode 'tcgen05"):
        Module(f"{_HEAD}.func unused() {{ tcgen05.wait.ld; ret; }}\n.entry k() {{ ret; mov.u32 %laneid, 0; }}")


def test_bytes_and_trailing_zero_as_nvrtc_gives_them() -> None:
    assert Module(f"{_HEAD}.entry k() {{ ret; }}\n".encode() + b"\0").entries == ("k",)
