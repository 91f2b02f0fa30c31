"""The hot path of a loop, in listings small enough to count by hand."""

from flashgen.inspect.sass import Code, Jump, parse_sass
from flashgen.inspect.sass_paths import fma_paths, product_paths


def code_of(*lines: str) -> Code:
    """A function; a line that ends in a colon is a label, and is written as nvdisasm does."""
    listing, at = ['\t.section\t.text.kernel,"ax",@progbits'], 0
    for line in lines:
        if line.endswith(":"):
            listing.append(f".L_x_{line}")
            continue
        predicate, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
        listing.append(f"        /*{at:04x}*/ {predicate:>18} {rest.replace('{', '`(.L_x_').replace('}', ')')} ;")
        at += 16
    return parse_sass("\n".join(listing))["kernel"]


HMMA = "HMMA.16816.F32 R4, R8, R12, R4"
COPY = "LDGSTS.E.BYPASS.128 [R5], [R10.64]"


def test_jumps_say_where_they_lead_and_whether_they_always_do() -> None:
    code = code_of(
        "0:", "@P0 BRA {1}", "BRA P1, {1}", "BRA.DIV UR4, {1}", "BRA {0}",
        "1:", "CALL.REL.NOINC {2}", "CALL.REL.NOINC `($__internal_0_$__slowpath)", "@P0 EXIT", "2:", "EXIT",
    )  # fmt: skip
    assert code.jumps == (
        Jump(0, 4, False), Jump(1, 4, False), Jump(2, 4, False), Jump(3, 0, True),
        Jump(4, 7, True), Jump(6, None, False), Jump(7, None, True),
    )  # fmt: skip


def test_what_is_switched_off_for_good_does_nothing() -> None:
    assert code_of("@!PT LDS RZ, [RZ]", "@P1 LDS R4, [R5]").opcodes == ("NOP", "LDS")


def test_registers_and_stack_are_read_from_the_attributes() -> None:
    text = """
	//----- nvinfo : EIATTR_REGCOUNT
        /*0004*/ 	.word	index@(kernel)
        /*0008*/ 	.word	0x000000ff
	//----- nvinfo : EIATTR_FRAME_SIZE
        /*0010*/ 	.word	index@(other)
        /*0014*/ 	.word	0x00000040
	.section	.text.kernel,"ax",@progbits
        /*0000*/                   EXIT ;
	.section	.text.other,"ax",@progbits
        /*0000*/                   EXIT ;
"""
    functions = parse_sass(text)
    assert (functions["kernel"].registers, functions["kernel"].stack_bytes) == (255, 0)
    assert (functions["other"].registers, functions["other"].stack_bytes) == (0, 64)


def test_a_slow_way_that_is_not_taken_is_not_counted() -> None:
    code = code_of(
        "0:", HMMA, "@P0 BRA {1}", "FADD R1, R1, R2", "FADD R1, R1, R2", "FADD R1, R1, R2",
        "1:", "FMUL R3, R3, R4", "@P1 BRA {0}", "EXIT",
    )  # fmt: skip
    (path,) = product_paths(code)
    assert path.opcodes == ("HMMA.16816.F32", "BRA", "FMUL", "BRA")


def test_the_copies_are_on_the_way_although_the_way_around_them_is_shorter() -> None:
    code = code_of("0:", HMMA, "@!P0 BRA {1}", COPY, COPY, "1:", "FMUL R3, R3, R4", "@P1 BRA {0}", "EXIT")
    (path,) = product_paths(code)
    assert path.count("LDGSTS") == 2
    assert len(path.opcodes) == 6


def test_narrow_copies_are_no_reason_for_a_detour() -> None:
    code = code_of("0:", HMMA, "@P0 BRA {1}", "LDG.E.U16 R1, [R2.64]", "BRA {2}", "1:", COPY, "2:", "@P1 BRA {0}")
    (path,) = product_paths(code)
    assert (path.count("LDG"), path.count("LDGSTS")) == (0, 1)


def test_products_come_before_copies() -> None:
    code = code_of("0:", HMMA, "@P0 BRA {1}", COPY, COPY, "BRA {2}", "1:", HMMA, HMMA, "2:", "@P1 BRA {0}", "EXIT")
    (path,) = product_paths(code)
    assert (path.count("HMMA"), path.count("LDGSTS")) == (3, 0)


def test_a_loop_that_is_left_by_a_call_ends_there() -> None:
    """ptxas ends loops by `@P CALL label`, followed by the branch back."""
    code = code_of("0:", HMMA, "@!P2 CALL.REL.NOINC {1}", "BRA {0}", "1:", HMMA, HMMA, "EXIT")
    (path,) = product_paths(code)
    assert path.opcodes == ("HMMA.16816.F32", "CALL.REL.NOINC", "BRA")


def test_a_call_of_a_function_comes_back() -> None:
    code = code_of("0:", HMMA, "CALL.REL.NOINC `($__internal_0_$__slowpath)", "FADD R1, R1, R2", "@P1 BRA {0}", "EXIT")
    (path,) = product_paths(code)
    assert len(path.opcodes) == 4


def test_the_loop_without_a_mask_comes_first_wherever_it_stands() -> None:
    code = code_of(
        "0:", HMMA, "FSEL R1, R1, R2, P0", "FSEL R1, R1, R2, P0", "@P1 BRA {0}", "1:", HMMA, "@P1 BRA {1}", "EXIT"
    )
    plain, masked = product_paths(code)
    assert (plain.count("FSEL"), masked.count("FSEL")) == (0, 2)


def test_loops_around_and_loops_within_without_products_are_no_hot_loops() -> None:
    code = code_of(
        "0:", "MOV R1, R2", "1:", HMMA, "@P0 BRA {3}", "2:", "LDG.E.U16 R1, [R2.64]", "@P1 BRA {2}",
        "3:", "@P2 BRA {1}", "@P3 BRA {0}", "EXIT",
    )  # fmt: skip
    (path,) = product_paths(code)
    assert path.opcodes == ("HMMA.16816.F32", "BRA", "BRA")


def test_code_that_nothing_leads_to_is_no_loop() -> None:
    code = code_of("0:", HMMA, "@P0 BRA {0}", "EXIT", "1:", HMMA, HMMA, "BRA {1}")
    (path,) = product_paths(code)
    assert path.count("HMMA") == 1


def test_loops_of_fmas_come_in_order_and_small_ones_do_not_count() -> None:
    fma = "FFMA R1, R2, R3, R1"
    first, second = ["0:", *[fma] * 40, "@P0 BRA {0}"], ["1:", *[fma] * 33, "@P0 BRA {1}"]
    code = code_of(*first, *second, "2:", fma, "@P0 BRA {2}", "EXIT")
    assert [path.count("FFMA") for path in fma_paths(code)] == [40, 33]


def test_a_function_without_loops_has_no_paths() -> None:
    code = code_of(HMMA, "EXIT")
    assert product_paths(code) == () == fma_paths(code)


def test_a_warpgroups_product_counts_as_those_that_each_warp_would_need() -> None:
    code = code_of("0:", "HGMMA.64x64x16.F32 R24, gdesc[UR8]", HMMA, "FADD R1, R1, R2", "@P0 BRA {0}", "EXIT")
    (path,) = product_paths(code)
    assert path.products == 8 + 1
