"""Looking at kernels: what they need of a machine, and what they are made of."""
