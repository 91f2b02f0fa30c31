"""The second executor: NumPy in lockstep over all lanes, written from the PTX manual, not from the machine."""

from flashgen.emulator.lockstep.executor import LockstepProgram

__all__ = ["LockstepProgram"]
