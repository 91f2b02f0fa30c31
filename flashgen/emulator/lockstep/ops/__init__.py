"""What each operation computes, on arrays that hold one value for each lane.

Importing this package fills the table.
"""

from flashgen.emulator.lockstep.ops import (
    approximate,
    bits,
    compare,
    convert,
    eight_bits,
    extremes,
    floating,
    half,
    integer,
    move,
)

__all__ = ["approximate", "bits", "compare", "convert", "eight_bits", "extremes", "floating", "half", "integer", "move"]
