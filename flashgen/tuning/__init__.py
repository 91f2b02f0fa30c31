"""Autotuning: measure the plans of a family, keep what was measured, and let builds use it.

`records` is what builds read: it lies below the API. `sweep` measures, `model` predicts where there is no GPU,
`report` shows; they lie above it.
"""
