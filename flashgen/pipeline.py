"""The corridor: plan -> render -> build -> load, for one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flashgen.compilation.artifact import Artifact, Toolchain
from flashgen.compilation.builder import build
from flashgen.compilation.store import Store
from flashgen.errors import LaunchError, SpecError
from flashgen.families import family_named
from flashgen.log import phase
from flashgen.render.renderer import render
from flashgen.runtime.kernel import CompiledKernel, Loader
from flashgen.source import KernelSource
from flashgen.spec import AttentionSpec
from flashgen.target import Target
from flashgen.tile_plan import TilePlan


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel on disk, not loaded: enough to ship, and all that can be had for another machine.

    Attributes:
        source: the rendered file.
        artifact: what the toolchain made of it.
        seconds: time of ``render`` and ``compile``.
    """

    source: KernelSource
    artifact: Artifact
    seconds: Mapping[str, float]


def build_kernel(
    spec: AttentionSpec,
    plan: TilePlan,
    target: Target,
    *,
    toolchain: Toolchain | None = None,
    store: Store | None = None,
) -> Built:
    """Renders and compiles a plan. The toolchain defaults to the target's own.

    Raises:
        RenderError, ToolchainError, CompileError: the stage that failed.
    """
    seconds: dict[str, float] = {}
    with phase("render", seconds):
        source = render(family_named(plan.family), spec, plan, target)
    with phase("compile", seconds):
        artifact = build(source, toolchain or toolchain_for(target), store)
    return Built(source, artifact, seconds)


def load_kernel(built: Built, loader: Loader | None = None) -> CompiledKernel:
    """Brings a built kernel into this process. The loader defaults to the target's own.

    Raises:
        LaunchError: this machine cannot run it.
    """
    seconds = dict(built.seconds)
    with phase("load", seconds):
        executable = (loader or loader_for(built.source.target)).load(built.artifact, built.source)
    return CompiledKernel(built.source, built.artifact, executable, seconds)


def build_and_load(
    spec: AttentionSpec,
    plan: TilePlan,
    target: Target,
    loader: Loader | None = None,
    *,
    toolchain: Toolchain | None = None,
    store: Store | None = None,
) -> CompiledKernel:
    """The whole corridor; see `build_kernel` and `load_kernel`.

    Another process may empty the cache between the two, so an artifact that vanished is built once more.
    """
    built = build_kernel(spec, plan, target, toolchain=toolchain, store=store)
    try:
        return load_kernel(built, loader)
    except LaunchError:
        if built.artifact.path.exists():
            raise
        return load_kernel(build_kernel(spec, plan, target, toolchain=toolchain, store=store), loader)


def toolchain_for(target: Target) -> Toolchain:
    """The compiler for a target."""
    if target.kind == "cpu":
        from flashgen.compilation.toolchains.host import HostToolchain

        return HostToolchain()
    from flashgen.compilation.toolchains.cuda import cuda_toolchain

    return cuda_toolchain(target)


def loader_for(target: Target, name: str = "auto") -> Loader:
    """The loader of that name for a target.

    Raises:
        SpecError: the target has no such loader.
    """
    if target.kind == "cuda":
        from flashgen.runtime.cuda_loader import cuda_loader

        return cuda_loader(name)
    if name in ("auto", "ctypes"):
        from flashgen.runtime.ctypes_loader import CtypesLoader

        return CtypesLoader()
    raise SpecError(f"Loader {name!r} does not serve target {target}. Loaders for it: auto, ctypes.")
