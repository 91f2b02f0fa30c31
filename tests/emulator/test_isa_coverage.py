# ruff: noqa: E501 - lines of PTX and of case tables read best whole
"""The instruction table and the machine fit each other, and no handler lacks a test."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from emulator_harness import ptx

from flashgen.emulator import Module
from flashgen.emulator.isa.entry import LISTS, Entry
from flashgen.emulator.isa.table import ENTRIES, lookup
from flashgen.emulator.native import machine
from flashgen.emulator.program.ops import Op

_CASES = ("test_op_integer", "test_op_float", "test_op_half", "test_op_compare", "test_op_convert", "test_op_move")
# Handlers whose tests are whole kernels, by the file that tests them.
_ELSEWHERE = {
    "test_op_memory": r"(ld|st)\.\w+|prefetch",
    "test_op_atomic": r"atom\..*",
    "test_op_warp": r"shfl|vote|match\..*|redux\..*|activemask|bar\.warp\.sync|elect\.sync",
    "test_control": r"block|bra|brx\.idx|exit|bar|fence|nop|nanosleep",
    "test_checks": r"trap",
    "test_op_move": r"isspacep|clock\..*",
    "test_op_tensor": r"mma\..*|movmatrix|ldmatrix\..*",
    "test_async_copy": r"cp\.async.*",
}


@pytest.fixture(scope="module")
def handlers_of_cases() -> set[str]:
    used = set()
    for name in _CASES:
        for case in importlib.import_module(name).CASES:
            module = Module(ptx(case.body, case.sources, case.results))
            used |= {op.handler for kernel in module._kernels.values() for op in kernel.code if isinstance(op, Op)}
    return used


def test_every_handler_of_the_machine_has_a_case(handlers_of_cases: set[str]) -> None:
    missing = {
        handler for handler in machine().handlers
        if handler not in handlers_of_cases and not any(re.fullmatch(pattern, handler) for pattern in _ELSEWHERE.values())
    }  # fmt: skip
    assert not missing


def test_atomics_are_all_tested() -> None:
    text = (Path(__file__).parent / "test_op_atomic.py").read_text()
    for handler in machine().handlers:
        if handler.startswith("atom."):
            assert handler.split(".")[1] in text and handler.split(".")[2] in text, handler


def test_handler_names_are_unique() -> None:
    assert len(machine().handlers) == len(set(machine().handlers)) > 300


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.syntax)
def test_no_entry_is_hidden_by_an_earlier_one(entry: Entry) -> None:
    """The longest opcode that an entry describes leads to that entry."""
    longest = re.sub(r"<\w+:(\w+)>", lambda m: f"<x:{LISTS.get(m[1], m[1])}>", entry.syntax)
    longest = re.sub(r"<\w+:([^>]*)>", lambda m: m[1].split("|")[-1], longest)
    longest = longest.replace("[", "").replace("]", "").replace("*CACHE", "")
    found = lookup(longest, len(entry.operands.split()))
    assert found is not None and found[0] is entry, longest
