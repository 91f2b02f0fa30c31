"""A model of CUDA kernels' speed, for machines without a GPU: it ranks plans, and never calls that a measurement.

Counts come from flashgen's emulator, registers from ptxas, rates from published tables. What the model knows nothing
of: latencies, the order that ptxas schedules instructions in, caches beyond their capacity, clocks under load.
"""
