"""Attention in float64 on the device, one head at a time, and how far a kernel may be from it."""

from __future__ import annotations

import torch

from flashgen.spec import Causal

# An ulp of the dtype at the size of out (P is not rounded), and the rounding of fp32 sums over the keys.
ABSOLUTE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 2e-5, "fp64": 1e-13}
LSE = {"fp16": 2e-5, "bf16": 2e-5, "fp32": 2e-5, "fp64": 1e-13}


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: Causal = Causal.NONE,
    scale: float | None = None,
    lengths: list[int] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, H, S, d) tensors in, out (B, H, Sq, dv) and lse (B, H, Sq) in float64 out."""
    batch, heads, rows, d = q.shape
    group = heads // k.shape[1]
    scale = d**-0.5 if scale is None else scale
    out = torch.zeros((batch, heads, rows, v.shape[-1]), dtype=torch.float64, device=q.device)
    lse = torch.full((batch, heads, rows), -torch.inf, dtype=torch.float64, device=q.device)
    i = torch.arange(rows, device=q.device)[:, None]
    for b in range(batch):
        valid = k.shape[2] if lengths is None else lengths[b]
        j = torch.arange(valid, device=q.device)[None, :]
        last = {Causal.NONE: i * 0 + valid, Causal.TOP_LEFT: i, Causal.BOTTOM_RIGHT: i + valid - rows}[causal]
        for h in range(heads):
            keys, values = k[b, h // group, :valid].double(), v[b, h // group, :valid].double()
            s = torch.where(j <= last, scale * (q[b, h].double() @ keys.T), -torch.inf)
            lse[b, h] = torch.logsumexp(s, dim=-1) if valid else -torch.inf
            p = torch.where(lse[b, h][:, None] == -torch.inf, 0.0, torch.exp(s - lse[b, h][:, None]))
            out[b, h] = p @ values
    return out, lse


def deviation(got: torch.Tensor, want: torch.Tensor) -> float:
    """Largest absolute difference; inf where one is finite and the other not, or a sign of infinity differs."""
    got = got.double()
    both = torch.isfinite(got) & torch.isfinite(want)
    same = both | (got == want) | (torch.isnan(got) & torch.isnan(want))
    if not bool(same.all()):
        return float("inf")
    return float((got - want)[both].abs().max()) if bool(both.any()) else 0.0
