"""Kernels for 64-bit ARM: cross-compiled, run by QEMU's user-mode emulator, judged by the float64 oracle."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from flashgen.compilation.toolchains.host import HostToolchain
from flashgen.families import FAMILIES
from flashgen.render.renderer import render
from flashgen.spec import AttentionSpec, make_spec
from flashgen.target import PRESETS, parse_target
from flashgen.tiling import plan_tiles
from flashgen.verification import cases_for, verify
from flashgen.verification.compare import accumulator

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
TARGET = parse_target("cpu:aarch64")
DRIVER = Path(__file__).with_name("driver.cpp")

pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"{COMPILER} or {EMULATOR} is not installed"
)


@dataclass(frozen=True)
class EmulatedKernel:
    """A program that `verify` can call like an Attention."""

    program: Path
    spec: AttentionSpec

    def __call__(self, q, k, v, *, return_lse, softmax_scale, seqlens_k, layout):
        heads_first = [x if layout == "bhsd" else x.swapaxes(1, 2) for x in (q, k, v)]
        batch, heads, seqlen_q, d = heads_first[0].shape
        heads_kv, seqlen_k = heads_first[1].shape[1:3]
        d_v = heads_first[2].shape[3]
        stored = [np.ascontiguousarray(x) for x in (q, k, v)]
        out_like = np.empty((*q.shape[:3], d_v), self.spec.dtype.numpy())
        strides = [self._strides(x, layout) for x in (*stored, out_like)]
        scale = 1 / math.sqrt(d) if softmax_scale is None else softmax_scale
        sizes = (batch, heads, heads_kv, seqlen_q, seqlen_k, *sum(strides, ()), *(x.nbytes for x in stored))
        lengths = b"" if seqlens_k is None else np.asarray(seqlens_k, np.int64).tobytes()
        header = struct.pack("<20qdq", *sizes, scale, bool(lengths))
        source, result = self.program.with_suffix(".in"), self.program.with_suffix(".out")
        source.write_bytes(header + lengths + b"".join(x.tobytes() for x in stored))
        subprocess.run([EMULATOR, str(self.program), str(source), str(result)], check=True, timeout=120)
        data = result.read_bytes()
        out = np.frombuffer(data, out_like.dtype, out_like.size).reshape(out_like.shape)
        lse = np.frombuffer(data, accumulator(self.spec.dtype).numpy(), offset=out_like.nbytes)
        return out, lse.reshape(batch, heads, seqlen_q)

    @staticmethod
    def _strides(x, layout):
        batch, head, row = (0, 1, 2) if layout == "bhsd" else (0, 2, 1)
        return tuple(x.strides[axis] // x.itemsize for axis in (batch, head, row))


def build(family, spec, directory: Path) -> EmulatedKernel:
    """Compiles a kernel and its driver into one program, strictly."""
    source = render(family, spec, plan_tiles(family, spec, TARGET, PRESETS[TARGET]), TARGET)
    text, program = source.write_to(directory), directory / "kernel"
    flags = [flag for flag in HostToolchain().flags(TARGET) if flag not in ("-shared", "-fPIC")]
    defines = [f'-DKERNEL_SOURCE="{text}"', f"-DKERNEL_ENTRY={source.entry}"]
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    command = [COMPILER, *flags, *warnings, *defines, "-static", "-pthread", "-o", str(program), str(DRIVER)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return EmulatedKernel(program, spec)


CPU_FAMILIES = {family.name: family for family in FAMILIES if family.kind == "cpu"}
CASES = [
    *((name, 40, 40, "fp32", "bottom_right") for name in CPU_FAMILIES),
    ("cpu_fa2", 40, 40, "fp16", False),
    ("cpu_fa2", 33, 24, "bf16", "top_left"),
    ("cpu_fa2", 17, 17, "fp64", False),
]


@pytest.mark.parametrize(("family", "d", "d_v", "dtype", "causal"), CASES)
def test_a_kernel_runs_on_aarch64(family, d, d_v, dtype, causal, tmp_path):
    spec = make_spec(d, dtype, causal, d_v)
    kernel = build(CPU_FAMILIES[family], spec, tmp_path)
    # The runtime, not the kernel, answers calls without queries or keys.
    report = verify(
        kernel, spec, cases=[case for case in cases_for(spec) if case.batch * case.seqlen_q * case.seqlen_k]
    )
    assert report.passed, report.summary()


def test_products_are_by_a_lane(tmp_path):
    """What makes broadcasts free on ARM: no register is filled with one scalar."""
    family, spec = CPU_FAMILIES["cpu_fa2"], make_spec(64, "fp32")
    source = render(family, spec, plan_tiles(family, spec, TARGET, PRESETS[TARGET]), TARGET).write_to(tmp_path)
    listing = tmp_path / "kernel.s"
    flags = [flag for flag in HostToolchain().flags(TARGET) if flag != "-shared"]
    subprocess.run([COMPILER, *flags, "-S", "-o", str(listing), str(source)], check=True)
    assert listing.read_text().count(".s[") >= 2 * 4 * 4  # both products, each of a whole register tile
