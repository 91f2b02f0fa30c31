"""What `flashgen build` writes for a CUDA target: CUBIN, PTX, manifest, C launcher; and `show --resources`."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import flashgen
from flashgen.cli.main import main
from flashgen.compilation.toolchains.nvrtc_library import find_nvrtc
from flashgen.emission import emit_kernel
from flashgen.errors import SpecError
from flashgen.launch_plan import ARGUMENT_BYTES, ARGUMENTS, evaluate
from flashgen.pipeline import Built, build_kernel
from flashgen.spec import make_spec
from flashgen.target import parse_target

pytestmark = pytest.mark.skipif(not find_nvrtc(), reason="no NVRTC: pip install 'flashgen[cuda]'")

# As much of cuda.h as a launcher uses.
CUDA_H = """
#include <stddef.h>
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
enum { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
CUresult cuCtxGetDevice(CUdevice*);
CUresult cuDeviceGetAttribute(int*, int, CUdevice);
CUresult cuModuleLoadData(CUmodule*, const void*);
CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void**, void**);
"""

# The driver's side of the launcher's test: it prints what it is asked.
DRIVER_C = """
#include <stdio.h>
#include "launcher.c"
CUresult cuCtxGetDevice(CUdevice* d) { *d = 0; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* v, int a, CUdevice d) { (void)a; (void)d; *v = 8; return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule* m, const void* i) { (void)m; (void)i; return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* n) {
  (void)m;
  *f = (CUfunction)n;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction f, int a, int v) {
  (void)f; (void)a;
  printf("allow %d\\n", v);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c,
                        unsigned s, CUstream stream, void** p, void** e) {
  (void)stream; (void)e;
  AttentionArgs* args = (AttentionArgs*)p[0];
  printf("%s %u %u %u block %u %u %u shared %u ranges %lld\\n", (const char*)f, x, y, z, a, b, c, s,
         (long long)args->row_ranges);
  return CUDA_SUCCESS;
}
int main(void) {
  FlashgenKernel kernel;
  AttentionArgs args = {.batch = 2, .num_heads = 3, .num_heads_kv = 1, .seqlen_q = 200, .seqlen_k = 500};
  if (flashgen_load(&kernel, "")) return 1;
  printf("workspace %zu\\n", flashgen_workspace_bytes(&args));
  return flashgen_launch(&kernel, &args, NULL);
}
"""


def built(algorithm: str) -> Built:
    plan = flashgen.plan(64, sram="96KB", target="sm_80", algorithm=algorithm)
    return build_kernel(make_spec(64), plan, parse_target("sm_80"))


@pytest.mark.parametrize(
    ("what", "suffixes"),
    [
        ("source", {"cu"}),
        ("ptx", {"cu", "ptx", "json"}),
        ("cubin", {"cu", "cubin", "json"}),
        (None, {"cu", "cubin", "ptx", "json"}),
        ("all", {"cu", "cubin", "ptx", "json", "launcher.c"}),
    ],
)
def test_emit_writes_what_was_asked_for(what: str | None, suffixes: set[str], tmp_path: Path) -> None:
    files = emit_kernel(built("fa1"), tmp_path, what)
    assert set(files) == suffixes
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in files.values()}
    assert len({path.name.partition(".")[0] for path in files.values()}) == 1


def test_a_cpu_kernel_has_no_ptx(tmp_path: Path) -> None:
    plan = flashgen.plan(16, "fp32", target="cpu")
    kernel = build_kernel(make_spec(16, "fp32"), plan, parse_target("cpu:x86-64-v2"))
    with pytest.raises(SpecError, match="A CPU kernel has no ptx"):
        emit_kernel(kernel, tmp_path, "ptx")
    assert set(emit_kernel(kernel, tmp_path, "all")) == {"cpp", "so"}


@pytest.mark.parametrize("algorithm", ["fa1", "standard"])
def test_the_manifest_is_enough_to_launch_the_kernel(algorithm: str, tmp_path: Path) -> None:
    kernel = built(algorithm)
    files = emit_kernel(kernel, tmp_path)
    manifest = json.loads(files["json"].read_text())
    ptx = files["ptx"].read_text()
    values = dict.fromkeys(manifest["formulas"]["variables"], 3)
    values["row_ranges"] = evaluate(manifest["row_ranges"], values)
    for launch in manifest["launches"]:
        assert f".entry {launch['entry']}(" in ptx
        assert all(evaluate(formula, values) >= 1 for formula in launch["grid"])
        assert f".maxntid {launch['block'][0]}" in ptx
    assert (
        max(launch["shared_bytes"] for launch in manifest["launches"]) == manifest["plan"]["footprint_bytes"]["total"]
    )
    assert evaluate(manifest["workspace_bytes"], values) > 0
    assert manifest["arguments"]["bytes"] == ARGUMENT_BYTES
    assert f"[{ARGUMENT_BYTES}]" in ptx  # the by-value struct, as the compiler laid it out
    assert [(f["name"], f["offset"]) for f in manifest["arguments"]["fields"]] == [
        (f.name, f.offset) for f in ARGUMENTS
    ]
    assert set(manifest["resources"]["kernels"]) == {launch["entry"] for launch in manifest["launches"]}
    for suffix in ("cu", "cubin", "ptx"):
        assert manifest["sha256"][suffix] == hashlib.sha256(files[suffix].read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("algorithm", "printed"),
    [
        ("fa1", ["allow 91136", "workspace 316800", "flashgen_cuda_fa1 12 1 1 block 256 1 1 shared 91136 ranges 2"]),
        (
            "standard",
            [
                "allow 33536",
                "allow 73728",
                "workspace 4800000",
                "flashgen_cuda_standard_scores 24 3 1 block 256 1 1 shared 33536 ranges 1",
                "flashgen_cuda_standard_softmax 150 1 1 block 256 1 1 shared 0 ranges 1",
                "flashgen_cuda_standard_output 24 1 1 block 256 1 1 shared 73728 ranges 1",
            ],
        ),
    ],
)
def test_the_c_launcher_compiles_without_warnings_and_asks_for_the_right_launches(
    algorithm: str, printed: list[str], tmp_path: Path
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    launcher = emit_kernel(built(algorithm), tmp_path, "all")["launcher.c"]
    shutil.copyfile(launcher, tmp_path / "launcher.c")
    (tmp_path / "cuda.h").write_text(CUDA_H)
    (tmp_path / "main.c").write_text(DRIVER_C)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-cast-qual", "-I", str(tmp_path)]
    done = subprocess.run(
        [compiler, *strict, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stdout.splitlines() == printed


def test_the_command_line_builds_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    asked = ["build", "--d", "64", "--sram", "96KB", "--target", "sm_80", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["seconds"]["load"] is None
    (kernel,) = data["resources"]
    assert (kernel["entry"], kernel["spill_load_bytes"], kernel["stack_bytes"]) == ("flashgen_cuda_fa2_mma", 0, 0)
    assert kernel["occupancy"]["ctas"] >= 2
    assert data["plan"]["footprint_bytes"]["total"] == kernel["shared_bytes"] <= 98304
    assert {path.suffix for path in tmp_path.iterdir()} == {".cu", ".cubin", ".ptx", ".json"}


def test_show_resources() -> None:
    done = CliRunner().invoke(
        main, ["show", "--d", "64", "--sram", "96KB", "--target", "sm_80", "--algorithm", "fa1", "--resources"]
    )
    assert done.exit_code == 0, done.output
    for words in ("registers of a thread", "91,136", "CTAs of an SM", "shared memory"):
        assert words in done.output


def test_show_resources_of_a_cpu_kernel_is_refused() -> None:
    done = CliRunner().invoke(main, ["show", "--d", "64", "--target", "cpu", "--resources"])
    assert done.exit_code == 2
