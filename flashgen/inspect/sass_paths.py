"""The way through a loop that a kernel takes when nothing unusual happens, found in the graph of its basic blocks.

A loop holds more than one turn of it executes: ways for tails, for large logits, for unaligned rows. The hot path
is the way from the loop's header to a branch back that does the most matrix products, then the most copies of 16
bytes, and of those the one with the fewest instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from flashgen.inspect.sass import Code

PRODUCTS = ("HMMA", "HGMMA")
FMAS = ("FFMA", "DFMA")
_COPIES = ("LDGSTS", "LDG")  # what LDG brings, STS stores
_FEWEST_FMAS = 32  # of a loop that counts as one that multiplies

_WARPGROUP = re.compile(r"HGMMA\.64x(\d+)x16")

_Score = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Path:
    """One turn of a loop.

    Attributes:
        opcodes: with modifiers, in order.
    """

    opcodes: tuple[str, ...]

    @property
    def mix(self) -> Counter[str]:
        """Opcodes without modifiers, and how often each is there."""
        return Counter(kind_of(opcode) for opcode in self.opcodes)

    @property
    def products(self) -> int:
        """Its mma instructions. A wgmma m64nNk16 of four warps counts as N / 8 mma.m16n8k16 of each."""
        groups = [match for match in map(_WARPGROUP.match, self.opcodes) if match]
        return self.count("HMMA") + sum(int(match[1]) // 8 for match in groups)

    def count(self, *kinds: str) -> int:
        """Instructions of the kinds."""
        return sum(kind_of(opcode) in kinds for opcode in self.opcodes)


def kind_of(opcode: str) -> str:
    """An opcode without its modifiers."""
    return opcode.partition(".")[0]


def product_paths(code: Code) -> tuple[Path, ...]:
    """The hot paths of the innermost loops that use tensor cores, fewest instructions first.

    So the first one is of the loop that needs no mask.
    """
    paths = [Path(path) for path in _Graph(code).innermost_paths(PRODUCTS)]
    return tuple(sorted((path for path in paths if path.count(*PRODUCTS)), key=lambda path: len(path.opcodes)))


def fma_paths(code: Code) -> tuple[Path, ...]:
    """The hot paths of the innermost loops that multiply by FMAs, in the order of the code."""
    paths = [Path(path) for path in _Graph(code).innermost_paths(FMAS)]
    return tuple(path for path in paths if path.count(*FMAS) >= _FEWEST_FMAS)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A natural loop: the block that it is entered by, and all its blocks."""

    header: int
    body: frozenset[int]


class _Graph:
    """The basic blocks of a function. A block goes by the index of its first instruction."""

    def __init__(self, code: Code) -> None:
        self.code = code
        jumps = {jump.at: jump for jump in code.jumps}
        leaders = {0} | {jump.to for jump in code.jumps if jump.to is not None} | {at + 1 for at in jumps}
        starts = sorted(leader for leader in leaders if leader < len(code.opcodes))
        ends = [*starts[1:], len(code.opcodes)]
        self.ends = dict(zip(starts, ends, strict=True))
        self.successors: dict[int, tuple[int, ...]] = {}
        for start, end in self.ends.items():
            jump = jumps.get(end - 1)
            following = [] if jump is not None and jump.always else [end]
            if jump is not None and jump.to is not None:
                following.append(jump.to)
            self.successors[start] = tuple(to for to in following if to in self.ends)

    def innermost_paths(self, wanted: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The hot path of each loop that has a wanted instruction, and no loop within it that has one, too."""
        having = [loop for loop in self._loops() if any(self._count(block, wanted) for block in loop.body)]
        for loop in having:
            if not any(other.body < loop.body for other in having):
                yield self._path(loop, wanted)

    def _count(self, block: int, kinds: tuple[str, ...]) -> int:
        return sum(kind_of(opcode) in kinds for opcode in self.code.opcodes[block : self.ends[block]])

    @cached_property
    def _walk(self) -> tuple[list[int], set[tuple[int, int]]]:
        """Blocks in reverse postorder, and the edges back, of a walk in depth from the entry."""
        order: list[int] = []
        back: set[tuple[int, int]] = set()
        open_blocks, seen = {0}, {0}
        stack = [(0, iter(self.successors[0]))]
        while stack:
            block, following = stack[-1]
            to = next(following, None)
            if to is None:
                stack.pop()
                open_blocks.discard(block)
                order.append(block)
            elif to in open_blocks:
                back.add((block, to))
            elif to not in seen:
                seen.add(to)
                open_blocks.add(to)
                stack.append((to, iter(self.successors[to])))
        return order[::-1], back

    def _loops(self) -> list[_Loop]:
        """Natural loops in the order of the code, those with one header taken together."""
        order, back = self._walk
        before: dict[int, list[int]] = {block: [] for block in order}
        for block in order:
            for to in self.successors[block]:
                before[to].append(block)
        bodies: dict[int, set[int]] = {}
        for latch, header in back:
            body = bodies.setdefault(header, {header})
            todo = [latch]
            while todo:
                block = todo.pop()
                if block not in body:
                    body.add(block)
                    todo += before[block]
        return [_Loop(header, frozenset(body)) for header, body in sorted(bodies.items())]

    def _path(self, loop: _Loop, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """The best way from the header to an edge back to it, once through the loop's blocks in topological order."""
        order, back = self._walk
        best: dict[int, tuple[_Score, tuple[int, ...]]] = {loop.header: (self._score(loop.header, wanted), ())}
        for block in order:
            if block not in loop.body or block not in best:
                continue
            score, way = best[block]
            for to in self.successors[block]:
                if to in loop.body and (block, to) not in back:
                    there = self._score(to, wanted)
                    found = (score[0] + there[0], score[1] + there[1], score[2] + there[2])
                    if to not in best or found > best[to][0]:
                        best[to] = (found, (*way, block))
        latches = [block for block, to in back if to == loop.header and block in best]
        last = max(latches, key=lambda block: best[block][0])
        blocks = (*best[last][1], last)
        return tuple(opcode for block in blocks for opcode in self.code.opcodes[block : self.ends[block]])

    def _score(self, block: int, wanted: tuple[str, ...]) -> _Score:
        opcodes = self.code.opcodes[block : self.ends[block]]
        copies = sum(kind_of(opcode) in _COPIES and opcode.endswith(".128") for opcode in opcodes)
        return self._count(block, wanted), copies, -len(opcodes)
