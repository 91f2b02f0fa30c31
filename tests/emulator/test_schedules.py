"""The machine's schedules: in which order warps and blocks run. The NumPy executor has one of its own."""

from __future__ import annotations

import numpy as np
import pytest

from flashgen.emulator import Module, Out, Schedule

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_ORDERS = ("round_robin", "reverse", "random")


def test_a_random_order_is_repeatable_and_depends_on_its_seed() -> None:
    """Warps append their number to a list: the order is the machine's."""
    module = Module(f"""{_HEAD}
.entry k(.param .u64 list)
{{
    .shared .u32 next; .reg .b32 %r<9>; .reg .b64 %x; .reg .pred %p;
    mov.u32 %r0, %tid.x; setp.eq.u32 %p, %r0, 0; @%p st.shared.u32 [next], 0; bar.sync 0;
    and.b32 %r1, %r0, 31; setp.ne.u32 %p, %r1, 0; @%p ret;
    atom.shared.add.u32 %r2, [next], 1;
    ld.param.u64 %x, [list]; mad.wide.u32 %x, %r2, 4, %x; shr.u32 %r3, %r0, 5; st.global.u32 [%x], %r3;
    ret;
}}""")

    def order(**schedule) -> tuple[int, ...]:
        out = np.zeros(8, np.uint32)
        module.launch("k", 1, 256, [Out(out)], schedule=Schedule(**schedule)).raise_for_findings()
        return tuple(out.tolist())

    assert order() == tuple(range(8)) and order(warps="reverse") == tuple(range(7, -1, -1))
    shuffled = {order(warps="random", seed=seed) for seed in range(12)}
    assert len(shuffled) > 6 and all(sorted(s) == list(range(8)) for s in shuffled)
    assert order(warps="random", seed=5) == order(warps="random", seed=5)


@pytest.mark.parametrize("order", _ORDERS)
def test_blocks_run_in_the_order_asked_for(order: str) -> None:
    module = Module(f"""{_HEAD}
.global .u32 next;
.entry k(.param .u64 list)
{{
    .reg .b32 %r<4>; .reg .b64 %x;
    atom.global.add.u32 %r0, [next], 1; mov.u32 %r1, %ctaid.x;
    ld.param.u64 %x, [list]; mad.wide.u32 %x, %r0, 4, %x; st.global.u32 [%x], %r1; ret;
}}""")
    out = np.zeros(50, np.uint32)
    module.launch("k", 50, 1, [Out(out)], schedule=Schedule(blocks=order, threads=1)).raise_for_findings()
    ascending = list(range(50))
    if order == "random":
        assert out.tolist() != ascending and sorted(out.tolist()) == ascending
    else:
        assert out.tolist() == (ascending if order == "round_robin" else ascending[::-1])
