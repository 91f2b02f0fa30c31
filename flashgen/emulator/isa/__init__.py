"""The instruction set as tables: an opcode is one entry."""
