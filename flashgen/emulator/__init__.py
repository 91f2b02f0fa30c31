"""PTX on the CPU: runs a kernel without a GPU, and finds what a GPU hides.

module = flashgen.emulator.Module(ptx_text)
report = module.launch("kernel", grid, block, [In(q), Out(o), 3.0], shared=1024)
report.raise_for_findings()
"""

from flashgen.emulator.arguments import Buffer, In, InOut, Out, Scratch, Struct
from flashgen.emulator.errors import PtxError
from flashgen.emulator.launch import Schedule
from flashgen.emulator.module import Module
from flashgen.emulator.report import Finding, LineCounts, Report, SharedCounts, Site, Traffic

__all__ = [
    "Buffer",
    "Finding",
    "In",
    "InOut",
    "LineCounts",
    "Module",
    "Out",
    "PtxError",
    "Report",
    "Schedule",
    "Scratch",
    "SharedCounts",
    "Site",
    "Struct",
    "Traffic",
]
