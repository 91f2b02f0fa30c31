"""`flashgen build`: the front door."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashgen.cli.options import kernel_options, request, tuned_option

if TYPE_CHECKING:
    from flashgen.pipeline import Built
    from flashgen.runtime.dispatch import Attention
    from flashgen.tile_plan import TilePlan
    from flashgen.tuning.records.bucket import Bucket


@click.command()
@kernel_options
@click.option(
    "--out",
    default="generated",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the source file and, beside it, the compiled one.",
)
@click.option("--verify", is_flag=True, help="Also check the kernel against the float64 oracle.")
@click.option(
    "--loader",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="How to load it: auto; CPU: ctypes; CUDA: torch, cupy, emulator.",
)
@click.option(
    "--emit",
    "what",
    type=click.Choice(["source", "ptx", "cubin", "all"]),
    help="What to write: only the source, also one compiled form, or all (CUDA: with a C launcher). "
    "Default: all but the launcher.",
)
@tuned_option
def build(
    as_json: bool, out: Path, verify: bool, loader: str, what: str | None, tuned: bool | None, **options: Any
) -> None:
    """Plan, render, compile and load one kernel.

    \b
    Example:
      flashgen build --d 64 --sram 96KB
      flashgen build --d 80 --dtype fp32 --causal --target cpu:x86-64-v3 --out kernels
      flashgen build --d 64 --sram 96KB --target sm_80 --emit all
    """
    from flashgen.cli.output import plan_json, print_json, print_plan
    from flashgen.cli.verify import exit_unless_passed, print_emulation, print_report, report_json, run_verification
    from flashgen.emission import emit_kernel
    from flashgen.families import family_named
    from flashgen.tuning.records.plans import plan_data
    from flashgen.tuning.sweep.space import label_of

    built, attn = _build(request(options), loader, verify, tuned)
    source = built.source
    files = emit_kernel(built, out, what)
    source_path = next(iter(files.values()))
    report = run_verification(attn, show_progress=not as_json) if verify and attn else None
    found = _tuned(options, built, tuned)
    if as_json:
        data = {
            "plan": plan_json(source.spec, source.target, source.plan),
            "source": str(source_path),
            "artifact": str(_kept(built, files)),
            "digest": source.digest,
            "cache_hit": built.artifact.cache_hit,
            "seconds": {stage: built.seconds.get(stage) for stage in ("render", "compile", "load")},
            "files": {suffix: str(path) for suffix, path in files.items()},
        } | _resources_json(built)
        if found:
            data["tuned"] = [
                {"bucket": bucket.name, "family": plan.family, **plan_data(plan)} for bucket, plan in found.items()
            ]
        print_json(data | ({"verify": report_json(report)} if report else {}))
    else:
        print_plan(source.spec, source.target, source.plan, options["target"])
        _print_built(built, files)
        for bucket, plan in found.items():
            label = f"{plan.family}, {label_of(family_named(plan.family), plan)}"
            click.echo(f"tuned     {bucket.summary}: {label}, built on first use")
        if report and attn:
            print_report(report)
            print_emulation(attn)
    exit_unless_passed(report)


def _tuned(options: dict[str, Any], built: Built, tuned: bool | None) -> dict[Bucket, TilePlan]:
    """The tuned plans that calls of some shapes run instead of the kernel that was built."""
    from flashgen.choice import choose
    from flashgen.settings import uses_tuned

    if not (uses_tuned() if tuned is None else tuned) or options["br"] or options["bc"]:
        return {}
    source = built.source
    choice = choose(source.spec, source.target, options["algorithm"], source.plan.sram_bytes)
    choice.add_tuned(source.spec, source.target)
    return {bucket: choice.plans[name] for buckets in choice.tuned.values() for bucket, name in buckets.items()}


def _build(asked: dict[str, Any], loader: str, verify: bool, tuned: bool | None) -> tuple[Built, Attention | None]:
    """Builds, and loads too where this machine can run the target (to verify, the emulator will do)."""
    import flashgen
    from flashgen.cli.verify import loader_to_verify
    from flashgen.pipeline import Built, build_kernel
    from flashgen.runtime.device import resolve_target, runs_here
    from flashgen.spec import make_spec

    target = resolve_target(asked["target"])
    if verify:
        loader = loader_to_verify(asked["target"], loader)
    if loader != "auto" or runs_here(target):
        attn = flashgen.build(**asked, loader=loader, tuned=tuned)
        return Built(attn.source, attn.artifact, attn.seconds), attn
    spec = make_spec(asked["d"], asked["dtype"], asked["causal"], asked["d_v"])
    return build_kernel(spec, flashgen.plan(**asked), target), None


def _resources_json(built: Built) -> dict[str, Any]:
    """``resources`` of a CUDA kernel: one entry for each launch."""
    if built.source.target.kind != "cuda":
        return {}
    from flashgen.inspect.resources import resources

    return {"resources": [kernel.as_json() for kernel in resources(built.source, built.artifact)]}


def _kept(built: Built, files: dict[str, Path]) -> Path:
    """The compiled file beside the source; the cache's own if none was asked for."""
    suffix = next(iter(built.artifact.paths))
    return files.get(suffix, built.artifact.path)


def _print_built(built: Built, files: dict[str, Path]) -> None:
    from flashgen.cli.output import console

    out = console()
    source_path, *others = files.values()
    out.print(f"source    {source_path} ({built.source.text.count(chr(10))} lines)", soft_wrap=True, markup=False)
    state = "found in the cache" if built.artifact.cache_hit else "compiled now"
    out.print(f"artifact  {_kept(built, files)} ({state})", soft_wrap=True, markup=False)
    for path in others:
        if path != _kept(built, files):
            out.print(f"and       {path}", soft_wrap=True, markup=False)
    names = {"compile": "look up" if built.artifact.cache_hit else "compile"}
    stages = ", ".join(f"{names.get(stage, stage)} {seconds * 1e3:.1f} ms" for stage, seconds in built.seconds.items())
    out.print(f"time      {stages}")
    if "load" not in built.seconds:
        out.print(f"not loaded: this machine cannot run {built.source.target}")
