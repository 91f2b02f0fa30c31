"""A model of CUDA kernels' speed: how long instructions keep the pipes of a multiprocessor busy.

What counts instructions (SASS of a hot loop for `flashgen show --model`, emulated PTX for autotune without a GPU)
turns them into `PipeCycles` by one table of rates, and those into time by one rule. What comes out is predicted, never
measured: the model knows nothing of latencies, of barriers, of the order that ptxas schedules in, of clocks under load.
"""
