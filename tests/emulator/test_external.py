"""benchmarks/external: cutting CUDA files, and its stand-in for cooperative groups."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emulator import In, Module, Out

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "external"
_FILE = """\
/* not { a ( declaration; */
#include <stdio.h>
#define TWICE(x) \\
  ((x) * 2)
namespace cg = cooperative_groups;
template <class T, int N> struct Box { T at[N]; };   // } in a comment
static const char* text = "a { string \\" with ; brackets";
typedef unsigned int word;
using number = float;
__device__ __forceinline__ float twice(float x) { return TWICE(x); }
#ifdef NEVER
__device__ float twice(int x) { return 0; }
#endif
template <int N> __global__ void __launch_bounds__(N) fill(float* out) {
  Box<float, N> box; /* { */
  const char c = '}'; (void)c;
  for (int k = 0; k < N; ++k) { box.at[k] = twice(float(k)); }
  if (threadIdx.x < N) out[threadIdx.x] = box.at[threadIdx.x];
}
int main(int argc, char** argv) { fill<32><<<1, 32>>>(nullptr); return 0; }
"""


@pytest.fixture(scope="module")
def extract() -> ModuleType:
    spec = importlib.util.spec_from_file_location("external_extract", _FOLDER / "extract.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def compiled(text: str) -> Module:
    found = find_nvrtc()
    if not found:
        pytest.skip("NVRTC is not installed")
    program = found[0].compile(text, "external.cu", ("-arch=compute_80", "--std=c++17", "-lineinfo", "-default-device"))
    assert program.succeeded, program.log
    return Module(program.ptx)


def test_a_file_falls_into_its_declarations(extract: ModuleType) -> None:
    found = [(piece.name, piece.line) for piece in extract.pieces(_FILE) if piece.name]
    assert found == [
        ("cg", 5), ("Box", 6), ("text", 7), ("word", 8), ("number", 9), ("twice", 10), ("twice", 12), ("fill", 14),
        ("main", 20),
    ]  # fmt: skip


def test_what_is_asked_for_compiles_and_keeps_its_lines(extract: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "file.cu"
    path.write_text(_FILE)
    text = extract.extract(path, ["Box", "twice", "fill"])
    assert "main" not in text and "#include" not in text and "#define TWICE" in text
    module = compiled(text + "template __global__ void fill<32>(float*);")
    out = np.zeros(16, np.float32)
    report = module.launch(module.entries[0], 1, 32, [Out(out)])  # half of the threads write beyond it
    assert out.tolist() == [2.0 * k for k in range(16)]
    (finding,) = report.findings
    assert (finding.kind, finding.site.file, finding.site.line) == ("out-of-bounds", "file.cu", 18)


def test_a_name_that_is_not_there_is_an_error(extract: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "file.cu"
    path.write_text(_FILE)
    with pytest.raises(LookupError, match="does not declare full: another version"):
        extract.extract(path, ["twice", "full"])


def test_cooperative_groups_mean_what_cuda_says() -> None:
    source = (
        (_FOLDER / "prelude.cuh").read_text()
        + """
    namespace cg = cooperative_groups;
    extern "C" __global__ void groups(const float* in, float* out) {
      cg::thread_block block = cg::this_thread_block();
      cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
      __shared__ float sums[4];
      const float x = in[block.thread_rank()], sum = cg::reduce(warp, x, cg::plus<float>{});
      const float top = cg::reduce(warp, x, cg::greater<float>{}), third = warp.shfl_down(x, 3);
      if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum + third;
      cg::sync(block);
      out[block.thread_rank()] = sums[warp.meta_group_size() - 1 - warp.meta_group_rank()] + top;
    }"""
    )
    x, out = np.random.default_rng(0).integers(0, 100, 128).astype(np.float32), np.zeros(128, np.float32)
    compiled(source).launch("groups", 1, (16, 8), [In(x), Out(out)]).raise_for_findings()
    rows = x.reshape(4, 32)
    expected = (rows.sum(axis=1) + rows[:, 3])[::-1] + rows.max(axis=1)
    np.testing.assert_array_equal(out.reshape(4, 32), np.repeat(expected[:, None], 32, axis=1))
