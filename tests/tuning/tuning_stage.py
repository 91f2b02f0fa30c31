"""What the tests of the tuner share: small spaces, books in a temporary directory, and a shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashgen.families import family_named
from flashgen.spec import make_spec
from flashgen.target import parse_target
from flashgen.tile_plan import TilePlan
from flashgen.tuning.sweep.book import Book
from flashgen.tuning.sweep.conclusion import Task
from flashgen.tuning.sweep.progress import Tell, silent
from flashgen.tuning.sweep.request import Request
from flashgen.tuning.sweep.result import ShapeResult
from flashgen.tuning.sweep.runner import Runner
from flashgen.tuning.sweep.shape import Shape
from flashgen.tuning.sweep.space import Candidate, Space
from flashgen.tuning.sweep.strategy import strategy_named
from flashgen.tuning.sweep.tuner import tune_shape

FAMILY, SPEC, TARGET = family_named("cpu_fa1"), make_spec(8, "fp32"), parse_target("cpu:x86-64-v3")
SHAPE = Shape(1, 2, 1, 48, 48)
VALIDITY = {"how": "measured", "device": "test bench", "flashgen": "1"}


def candidate(br: int, bc: int, *roles: str) -> Candidate:
    knobs = FAMILY.knobs(SPEC, TARGET, br, bc)
    plan = TilePlan(FAMILY.name, br, bc, knobs, FAMILY.footprint(SPEC, br, bc, knobs), "tuned")
    return Candidate(plan, f"{br} x {bc}", roles)


def key(br: int, bc: int) -> str:
    return f"{br}x{bc} {{}}"


DEFAULT, RULE = (16, 16), (8, 64)
OTHERS = [(16, 32), (32, 16), (32, 32), (32, 64), (64, 32), (64, 64)]


def small_space(others: list[tuple[int, int]] = OTHERS) -> Space:
    return Space((candidate(*DEFAULT, "default"), candidate(*RULE, "rule"), *(candidate(*tile) for tile in others)), ())


def make_book(directory: Path, monkeypatch: pytest.MonkeyPatch, fresh: bool = False) -> Book:
    monkeypatch.setenv("FLASHGEN_CACHE_DIR", str(directory))
    return Book(Request(SPEC, TARGET, FAMILY), SHAPE, small_space(), VALIDITY, fresh=fresh)


def run(
    runner: Runner,
    book: Book,
    *,
    space: Space | None = None,
    strategy: str = "halving",
    seconds: float = 1000.0,
    tell: Tell = silent,
) -> ShapeResult:
    task = Task(Request(SPEC, TARGET, FAMILY), SHAPE, space or small_space(), VALIDITY, "test bench", seconds)
    return tune_shape(task, runner, strategy_named(strategy), book, tell)
