"""`flashgen run`: attention on the user's own arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from flashgen.cli.options import algorithm_option, causal_option, json_option, sram_option, target_option, tuned_option

_INPUT = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--q", "q_file", type=_INPUT, help="Queries, a .npy file.")
@click.option("--k", "k_file", type=_INPUT, help="Keys.")
@click.option("--v", "v_file", type=_INPUT, help="Values.")
@click.option("--qkv", "qkv_file", type=_INPUT, help="Instead: one .npz or .safetensors file holding q, k and v.")
@click.option(
    "--out",
    "--o",
    "out_file",
    type=_OUTPUT,
    required=True,
    help="Where the result goes (.npy, .npz, .safetensors).",
)
@click.option("--lse", "lse_file", type=_OUTPUT, help="Where the log-sum-exp of each row goes.")
@causal_option
@click.option("--scale", type=float, help="Factor on q k^T. Default: 1 / sqrt(d).")
@click.option(
    "--layout",
    default="bhsd",
    show_default=True,
    type=click.Choice(["bhsd", "bshd"]),
    help="Order of the axes.",
)
@sram_option
@algorithm_option
@target_option
@tuned_option
@json_option
def run(
    q_file: Path | None,
    k_file: Path | None,
    v_file: Path | None,
    qkv_file: Path | None,
    out_file: Path,
    lse_file: Path | None,
    causal: Literal["bottom_right", "top_left"] | None,
    scale: float | None,
    layout: str,
    as_json: bool,
    **build_options: Any,
) -> None:
    """Compute attention on your own arrays; dtype and head dim follow the files.

    \b
    Example:
      flashgen run --q q.npy --k k.npy --v v.npy --out o.npy --lse l.npy --causal
      flashgen run --qkv layer0.safetensors --out o.npy
    """
    import flashgen
    from flashgen.cli.arrays import read_inputs, refuse_clash, write_results
    from flashgen.cli.output import print_json

    refuse_clash([q_file, k_file, v_file, qkv_file], out_file, lse_file)
    q, k, v = read_inputs(q_file, k_file, v_file, qkv_file)
    out, lse = flashgen.attention(
        q, k, v, causal=causal or False, softmax_scale=scale, layout=layout, return_lse=True, **build_options
    )
    write_results(out_file, lse_file, out, lse)
    if as_json:
        data = {
            "out": str(out_file),
            "lse": str(lse_file) if lse_file else None,
            "shape": list(out.shape),
            "dtype": out.dtype.name,
        }
        print_json(data)
    else:
        also = f", {lse_file}: lse {lse.shape} {lse.dtype.name}" if lse_file else ""
        click.echo(f"{out_file}: out {out.shape} {out.dtype.name}{also}")
