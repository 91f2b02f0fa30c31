"""The structures of machine/abi.hpp, as ctypes and NumPy see them."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32, c_uint64, c_void_p

import numpy as np

from flashgen.emulator.program.encode import INS_DTYPE, SPECIAL_DTYPE

ABI_VERSION = 1


class ProgramDesc(ctypes.Structure):
    """A program."""

    _fields_ = (
        ("ins", c_void_p),
        ("ops", c_void_p),
        ("image", c_void_p),
        ("specials", c_void_p),
        ("constants", c_void_p),
        ("constant_bytes", c_uint64),
        ("num_ins", c_uint32),
        ("num_ops", c_uint32),
        ("num_specials", c_uint32),
        ("image_bytes", c_uint32),
        ("frame_bytes", c_uint32),
        ("local_bytes", c_uint32),
        ("cell_shift", c_uint32),
        ("partial_barriers", c_uint32),
    )


class LaunchDesc(ctypes.Structure):
    """A launch: what to run, and where the results go."""

    _fields_ = (
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("static_shared_bytes", c_uint32),
        ("shared_base", c_uint32),
        ("param_bytes", c_uint32),
        ("params", c_void_p),
        ("arena", c_void_p),
        ("arena_map", c_void_p),
        ("global_cells", c_void_p),
        ("arena_base", c_uint64),
        ("arena_bytes", c_uint64),
        ("buffers", c_void_p),
        ("traffic", c_void_p),
        ("counts", c_void_p),
        ("findings", c_void_p),
        ("step_limit", c_uint64),
        ("seed", c_uint64),
        ("barriers", c_uint64),
        ("num_buffers", c_uint32),
        ("max_findings", c_uint32),
        ("num_findings", c_uint32),
        ("findings_dropped", c_uint32),
        ("threads", c_uint32),
        ("checked", c_uint32),
        ("warp_order", c_uint32),
        ("cta_order", c_uint32),
        ("global_shift", c_uint32),
        ("pad", c_uint32),
    )


BUFFER_DTYPE = np.dtype([("base", "<u8"), ("end", "<u8"), ("flags", "<u4"), ("pad", "<u4")])
TRAFFIC_DTYPE = np.dtype([("requests", "<u8"), ("bytes", "<u8"), ("sectors", "<u8")])
COUNTS_DTYPE = np.dtype(
    [(name, "<u8") for name in ("executed", "lanes", "accesses", "bytes", "sectors", "wavefronts", "ideal_wavefronts")]
)
FINDING_DTYPE = np.dtype(
    [(name, "<u4") for name in ("kind", "ins", "other_ins", "cta", "warp", "other_warp", "lanes", "space")]
    + [("address", "<u8"), ("size", "<u4"), ("barrier", "<u4"), ("other_cta", "<u4"), ("pad", "<u4"), ("count", "<u8")]
)

GLOBAL_CELL_BYTES = 36

# In the order in which emu_abi() tells their sizes.
STRUCTURES = (
    ("EncodedIns", INS_DTYPE.itemsize),
    ("SpecialSlot", SPECIAL_DTYPE.itemsize),
    ("ProgramDesc", ctypes.sizeof(ProgramDesc)),
    ("BufferDesc", BUFFER_DTYPE.itemsize),
    ("AccessCounts", TRAFFIC_DTYPE.itemsize),
    ("InsCounts", COUNTS_DTYPE.itemsize),
    ("Finding", FINDING_DTYPE.itemsize),
    ("GlobalCell", GLOBAL_CELL_BYTES),
    ("LaunchDesc", ctypes.sizeof(LaunchDesc)),
)

READABLE, WRITABLE, MAPPED = 1, 2, 4
MAP_LEGAL, MAP_INITIALISED, MAP_WRITTEN, MAP_READ_ONLY = 1, 2, 4, 8
ORDERS = {"round_robin": 0, "reverse": 1, "random": 2}
