"""Arrays in files: .npy, .npz and .safetensors, bf16 included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from flashgen.dtypes import BF16
from flashgen.errors import ArgumentError, ToolchainError

SUFFIXES = (".npy", ".npz", ".safetensors")


def read_inputs(
    q: Path | None, k: Path | None, v: Path | None, qkv: Path | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reads q, k and v from three files or from one.

    Raises:
        click.UsageError: neither three files nor one are named.
        ArgumentError: a file does not hold what it should.
    """
    if qkv is not None and q is None and k is None and v is None:
        tensors = read_tensors(qkv)
        missing = [name for name in ("q", "k", "v") if name not in tensors]
        if missing:
            have = ", ".join(sorted(tensors)) or "nothing"
            raise ArgumentError(f"{qkv} holds no array named {', '.join(missing)}; it holds {have}.", tensor=missing[0])
        return tensors["q"], tensors["k"], tensors["v"]
    if q is None or k is None or v is None or qkv is not None:
        raise click.UsageError("Name the inputs with --q, --k and --v, or with --qkv alone.")
    return _read_one(q, "q"), _read_one(k, "k"), _read_one(v, "v")


def read_tensors(path: Path) -> Mapping[str, np.ndarray]:
    """Every array of a file by name; the array of a .npy file is called by the file's stem.

    Raises:
        ArgumentError: the file is of another kind, or damaged.
    """
    try:
        if path.suffix == ".safetensors":
            tensors: dict[str, np.ndarray] = _safetensors().load_file(path)
            return tensors
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: _restore_bf16(archive[name]) for name in archive.files}
        if path.suffix == ".npy":
            return {path.stem: _restore_bf16(np.load(path, allow_pickle=False))}
    except (ValueError, EOFError, KeyError) as error:
        reason = "it is no NumPy file, or holds Python objects" if "pickle" in str(error) else str(error).rstrip(".")
        raise ArgumentError(f"{path} could not be read: {reason}.") from error
    except Exception as error:
        if type(error).__name__ in ("SafetensorError", "BadZipFile"):
            raise ArgumentError(f"{path} could not be read: {error}.") from error
        raise
    raise ArgumentError(f"{path} is of a kind that cannot be read. Use {', '.join(SUFFIXES)}.")


def refuse_clash(inputs: Iterable[Path | None], out: Path, lse: Path | None) -> None:
    """Refuses to write over an input, or one result over the other.

    Raises:
        ArgumentError: two files are the same.
    """
    given = {path.resolve() for path in inputs if path is not None}
    for path in (out, lse):
        if path is not None and path.resolve() in given:
            raise ArgumentError(f"{path} is an input; write the result to another file.")
    if lse is not None and lse.resolve() == out.resolve() and out.suffix == ".npy":
        raise ArgumentError(f"{out} cannot hold both out and lse: a .npy file has one array. Use .npz for both.")


def write_results(out_path: Path, lse_path: Path | None, out: np.ndarray, lse: np.ndarray) -> None:
    """Writes out and lse to their files, or to one, where they are called ``out`` and ``lse``.

    Raises:
        ArgumentError: the suffix is of no known kind.
        OSError: a file cannot be written.
    """
    if lse_path is None:
        write_arrays(out_path, {"out": out})
    elif lse_path.resolve() == out_path.resolve():
        write_arrays(out_path, {"out": out, "lse": lse})
    else:
        write_arrays(out_path, {"out": out})
        write_arrays(lse_path, {"lse": lse})


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name; a .npy file holds one, without its name.

    Raises:
        ArgumentError: the suffix is of no known kind.
        OSError: the file cannot be written.
    """
    if path.suffix == ".safetensors":
        _safetensors().save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    elif path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    else:
        raise ArgumentError(f"{path} is of a kind that cannot be written. Use {', '.join(SUFFIXES)}.")


def _read_one(path: Path, name: str) -> np.ndarray:
    tensors = read_tensors(path)
    if name in tensors:
        return tensors[name]
    if len(tensors) == 1:
        return next(iter(tensors.values()))
    have = ", ".join(sorted(tensors))
    raise ArgumentError(f"{path} holds several arrays, none of them named {name}: {have}.", tensor=name)


def _restore_bf16(array: np.ndarray) -> np.ndarray:
    """NumPy files have no bf16: ml_dtypes' arrays are written, and come back, as 2-byte blobs."""
    return array.view(BF16.numpy()) if array.dtype == np.dtype("V2") else array


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ToolchainError(
            "Files in .safetensors format need the safetensors package: pip install 'flashgen[safetensors]'."
        ) from error
    return safetensors.numpy
