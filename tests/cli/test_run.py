"""`flashgen run` on the user's own files."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from flashgen.reference import attention_reference
from flashgen.spec import Causal


def arrays(dtype, shape=(2, 4, 33, 24), shape_kv=(2, 2, 40, 24), dv=12):
    rng = np.random.default_rng(7)
    q = rng.standard_normal(shape).astype(dtype)
    k = rng.standard_normal(shape_kv).astype(dtype)
    v = rng.standard_normal((*shape_kv[:-1], dv)).astype(dtype)
    return q, k, v


def save(q, k, v):
    for name, array in (("q", q), ("k", k), ("v", v)):
        np.save(f"{name}.npy", array)
    return "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 2e-3), (np.float32, 2e-6), (np.float64, 1e-13)])
def test_run_computes_attention_on_npy_files(flashgen, dtype, tolerance):
    q, k, v = arrays(dtype)
    files = save(q, k, v)
    result = flashgen("run", *files, "--out", "o.npy", "--lse", "l.npy", "--causal", "--scale", 0.3)
    assert result.exit_code == 0, result.output
    out, lse = attention_reference(q, k, v, causal=Causal.BOTTOM_RIGHT, softmax_scale=0.3)
    mine = np.load("o.npy")
    assert mine.dtype == dtype
    assert np.abs(mine - out).max() < tolerance * np.abs(out).max()
    assert np.abs(np.load("l.npy") - lse).max() < 1e-5
    assert "out (2, 4, 33, 12)" in result.stdout


def test_run_reads_bf16_that_numpy_wrote_as_blobs(flashgen):
    q, k, v = arrays(ml_dtypes.bfloat16)
    result = flashgen("run", *save(q, k, v), "--out", "o.npy")
    assert result.exit_code == 0, result.output
    out, _ = attention_reference(q, k, v)
    assert np.abs(np.load("o.npy").view(ml_dtypes.bfloat16) - out).max() < 2e-2


def test_run_reads_and_writes_npz_and_safetensors(flashgen):
    safetensors = pytest.importorskip("safetensors.numpy")
    q, k, v = arrays(np.float32)
    np.savez("qkv.npz", q=q, k=k, v=v)
    safetensors.save_file({"q": q, "k": k, "v": v}, "qkv.safetensors")
    out, _ = attention_reference(q, k, v)
    for source, target in (("qkv.npz", "o.safetensors"), ("qkv.safetensors", "o.npz")):
        result = flashgen("run", "--qkv", source, "--out", target, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["shape"] == [2, 4, 33, 12]
    for got in (safetensors.load_file("o.safetensors")["out"], np.load("o.npz")["out"]):
        assert np.abs(got - out).max() < 2e-6


def test_run_takes_the_bshd_layout(flashgen):
    q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in arrays(np.float32))
    assert flashgen("run", *save(q, k, v), "--out", "o.npy", "--layout", "bshd").exit_code == 0
    out, _ = attention_reference(*arrays(np.float32))
    assert np.abs(np.load("o.npy").swapaxes(1, 2) - out).max() < 2e-6


def test_run_names_what_is_wrong_with_the_files(flashgen, tmp_path):
    q, k, v = arrays(np.float32)
    files = save(q, k, v)
    np.save("ints.npy", np.zeros((2, 4, 33, 24), np.int32))
    np.save("short.npy", k[:, :, :, :20])
    np.savez("two.npz", a=q, b=k)
    (tmp_path / "broken.npy").write_bytes(b"not an array")
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    cases = [
        (("--q", "ints.npy", *files[2:], "--out", "o.npy"), "q must be fp16, bf16, fp32 or fp64"),
        ((*files[:2], "--k", "short.npy", *files[4:], "--out", "o.npy"), "k must be of head dim d=24"),
        ((*files[:4], "--out", "o.npy"), "Name the inputs"),
        (("--qkv", "two.npz", "--out", "o.npy"), "holds no array named q, k, v; it holds a, b"),
        (("--q", "two.npz", *files[2:], "--out", "o.npy"), "several arrays"),
        (("--q", "broken.npy", *files[2:], "--out", "o.npy"), "broken.npy could not be read"),
        (("--qkv", "broken.npz", "--out", "o.npy"), "broken.npz could not be read"),
        (("--q", "objects.npy", *files[2:], "--out", "o.npy"), "objects.npy could not be read"),
        (("--q", "missing.npy", *files[2:], "--out", "o.npy"), "does not exist"),
        ((*files, "--out", "o.txt"), "kind that cannot be written"),
        ((*files, "--out", "no/such/dir/o.npy"), "no/such/dir/o.npy: No such file or directory"),
        ((*files, "--out", "o.npy", "--scale", "nan"), "softmax_scale must be a finite number"),
    ]
    for arguments, words in cases:
        result = flashgen("run", *arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert words in result.stderr, (words, result.stderr)
        assert "Traceback" not in result.output
        assert not (tmp_path / "o.npy").exists()


def test_results_never_overwrite_inputs_or_each_other(flashgen, tmp_path):
    q, k, v = arrays(np.float32)
    np.savez("qkv.npz", q=q, k=k, v=v)
    assert flashgen("run", "--qkv", "qkv.npz", "--out", "both.npz", "--lse", "both.npz").exit_code == 0
    with np.load("both.npz") as both:
        assert sorted(both.files) == ["lse", "out"]
    before = (tmp_path / "qkv.npz").read_bytes()
    for arguments, words in (
        (("--out", "./qkv.npz"), "qkv.npz is an input"),
        (("--out", "o.npy", "--lse", "qkv.npz"), "qkv.npz is an input"),
        (("--out", "o.npy", "--lse", "o.npy"), "cannot hold both out and lse"),
    ):
        result = flashgen("run", "--qkv", "qkv.npz", *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.stderr
    assert (tmp_path / "qkv.npz").read_bytes() == before
