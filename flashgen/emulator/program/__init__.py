"""From a parsed function to what the machine runs: lower, find blocks, allocate registers, encode."""
