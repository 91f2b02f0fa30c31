"""Basic blocks, and where the arms of a branch meet again.

Each block gets a marker in front. A branch's arms meet at the immediate post-dominator of its block: the
first block that every path from there to the end goes through.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flashgen.emulator.program.ops import Op, Place

_END = -1  # the virtual block that all exits lead to


@dataclass(eq=False, slots=True)
class Block:
    """Operations that run one after the other; ``ops[0]`` is the marker.

    Attributes:
        successors: indices of blocks that may follow.
        meet: index of the block where a branch at its end reconverges; None: nowhere.
    """

    ops: list[Op] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    meet: int | None = None


def find_blocks(code: list[Op | Place]) -> tuple[list[Block], dict[Place, int]]:
    """Cuts the code into blocks that control can reach; place -> block."""
    blocks: list[Block] = []
    places: dict[Place, int] = {}
    fresh = True
    for item in code:
        if isinstance(item, Place):
            places[item] = len(blocks)
            fresh = True
            continue
        if fresh:
            blocks.append(Block([Op("block", unit="")]))
            fresh = False
        blocks[-1].ops.append(item)
        fresh = item.ends_block
    if len(blocks) in places.values():  # a label at the very end
        blocks.append(Block([Op("block", unit=""), Op("exit", unit="control")]))
    _link(blocks, places)
    return _reachable(blocks, places)


def _link(blocks: list[Block], places: dict[Place, int]) -> None:
    for index, block in enumerate(blocks):
        last = block.ops[-1]
        block.successors = [places[place] for place in last.targets()]
        if last.falls_through and index + 1 < len(blocks):
            block.successors.append(index + 1)


def _reachable(blocks: list[Block], places: dict[Place, int]) -> tuple[list[Block], dict[Place, int]]:
    seen, pending = {0}, [0]
    while pending:
        for successor in blocks[pending.pop()].successors:
            if successor not in seen:
                seen.add(successor)
                pending.append(successor)
    renamed = {old: new for new, old in enumerate(sorted(seen))}
    kept = [blocks[old] for old in sorted(seen)]
    for block in kept:
        block.successors = [renamed[successor] for successor in block.successors]
    return kept, {place: renamed[index] for place, index in places.items() if index in renamed}


def find_meets(blocks: list[Block]) -> None:
    """Sets ``meet`` of every block, by Cooper, Harvey and Kennedy's algorithm on the reversed graph."""
    predecessors: dict[int, list[int]] = {_END: []}
    for index, block in enumerate(blocks):
        predecessors.setdefault(index, [])
        for successor in block.successors:
            predecessors.setdefault(successor, []).append(index)
        if not block.successors or block.ops[-1].handler == "exit":
            predecessors[_END].append(index)
    order = _postorder(_END, predecessors)
    number = {node: k for k, node in enumerate(order)}
    dominator: dict[int, int] = {_END: _END}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            new = _common([s for s in _successors(blocks, node) if s in dominator], dominator, number)
            if dominator.get(node) != new:
                dominator[node] = new
                changed = True
    for index, block in enumerate(blocks):
        meet = dominator.get(index, _END)
        block.meet = None if meet == _END else meet


def _successors(blocks: list[Block], node: int) -> list[int]:
    block = blocks[node]
    ends = not block.successors or block.ops[-1].handler == "exit"
    return [*block.successors, _END] if ends else block.successors


def _common(nodes: list[int], dominator: dict[int, int], number: dict[int, int]) -> int:
    result = nodes[0]
    for node in nodes[1:]:
        other = node
        while result != other:
            while number[result] < number[other]:
                result = dominator[result]
            while number[other] < number[result]:
                other = dominator[other]
    return result


def _postorder(root: int, edges: dict[int, list[int]]) -> list[int]:
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(edges[root]))]
    while stack:
        node, rest = stack[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(edges[following])))
                break
        else:
            stack.pop()
            order.append(node)
    return order
