"""The sweep: which plans, measured how, kept where, and what comes of it.

Strategies know nothing of how plans are measured, runners nothing of why: a runner that replays recorded seconds
serves as well as one that runs kernels.
"""
