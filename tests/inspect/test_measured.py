"""The measured column: what is read from the profiler, and what is said without one. (No GPU is needed here.)"""

from __future__ import annotations

import stat

import pytest

from flashgen.errors import LaunchError
from flashgen.inspect.io_kernel import Sizes
from flashgen.inspect.io_measured import measured, read_csv
from flashgen.spec import make_spec
from flashgen.target import parse_target

from .plans import plan_of

HEAD = '"ID","Process ID","Process Name","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'


def row(launch: int, kernel: str, metric: str, value: str) -> str:
    return f'"{launch}","7","python","flashgen_{kernel}","Command line profiler metrics","{metric}","byte","{value}"'


ROWS = [
    row(0, "cuda_standard_scores", "dram__bytes_read.sum", "1,024"),
    row(0, "cuda_standard_scores", "dram__bytes_write.sum", "4,096"),
    row(1, "cuda_standard_output", "dram__bytes_read.sum", "512"),
    row(1, "cuda_standard_output", "dram__bytes_write.sum", "0"),
]
SAID = "\n".join(["==PROF== Connected to process 7", '==PROF== Profiling "flashgen_cuda_standard_scores"', HEAD, *ROWS])
SPEC = make_spec(64)


def ask(target="sm_80"):
    return measured(SPEC, plan_of("cuda_fa1", SPEC, 64, 64), parse_target(target), Sizes(1, 2, 256, 256), "fa1")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr("flashgen.runtime.cuda_device.gpu_target", lambda ordinal: parse_target("sm_80"))


@pytest.fixture
def ncu(tmp_path, monkeypatch, gpu):
    def install(script: str) -> None:
        path = tmp_path / "ncu"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_the_counters_of_all_launches_are_added_up():
    found = read_csv(SAID)
    assert (found.read, found.written) == (1536, 4096)
    assert found.by == "Nsight Compute, DRAM bytes of 2 launches" and not found.reason


def test_no_launch_is_not_zero_bytes():
    for text in ("", HEAD, "==PROF== Connected"):
        assert read_csv(text).read is None
        assert "no launch" in read_csv(text).reason


def test_the_profiler_is_given_the_plan_and_the_shape(ncu, tmp_path):
    said = tmp_path / "said.csv"
    said.write_text(SAID)
    ncu(f'printf "%s\\n" "$@" > {tmp_path}/arguments; cat {said}')
    found = ask()
    assert (found.read, found.written) == (1536, 4096)
    arguments = (tmp_path / "arguments").read_text()
    for text in ("regex:^flashgen_", "flashgen.inspect.io_measured", '"br": 64', '"shape": [1, 2, 256, 256]'):
        assert text in arguments


def test_a_refusal_of_the_profiler_is_passed_on(ncu):
    ncu('echo "==ERROR== ERR_NVGPUCTRPERM: no permission to access the counters"; exit 1')
    found = ask()
    assert found.read is None
    assert found.reason == "ncu failed: ERR_NVGPUCTRPERM: no permission to access the counters"


def test_without_a_gpu_a_profiler_or_the_right_gpu_it_says_what_is_missing(monkeypatch, gpu, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask().reason == "needs Nsight Compute (ncu) on the PATH"
    assert ask("sm_90").reason == "needs sm_90; this machine's GPU is sm_80"
    assert ask("cpu:x86-64-v3").reason.startswith("only on a GPU")

    def none(ordinal):
        raise LaunchError("no driver")

    monkeypatch.setattr("flashgen.runtime.cuda_device.gpu_target", none)
    assert ask().reason == "needs a CUDA GPU and its profiler"
