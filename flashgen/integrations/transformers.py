"""flashgen as an attention implementation of Hugging Face transformers.

    from flashgen.integrations.transformers import register

    register()
    model = AutoModel.from_pretrained(..., attn_implementation="fgen")

Two things are registered under one name: the attention function, and the mask function. Without the
second, transformers would silently hand over no mask at all. flashgen's kernels know masks in which
every row sees a prefix of the keys; right-padded, causal and full masks are of that kind. Any other
mask (left padding, sliding windows that bite, packed sequences) is a clear error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import transformers
from transformers.masking_utils import (
    AttentionMaskInterface,
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
)

from flashgen.api import attention
from flashgen.errors import ArgumentError, SpecError

Alignment = Literal[False, "top_left", "bottom_right"]


@dataclass(frozen=True, slots=True)
class PrefixMask:
    """A mask in which every query row sees a prefix of the keys.

    Attributes:
        causal: as `flashgen.attention` takes it.
        seqlens_k: (B,) int64, valid keys of each batch entry; None if all are.
    """

    causal: Alignment
    seqlens_k: torch.Tensor | None


def register(name: str = "fgen") -> None:
    """Registers attention and mask functions with transformers.

    Args:
        name: what ``attn_implementation`` will be. Not "flashgen": transformers takes every name with
            "flash" in it for the flash-attn package and looks for that instead.

    Raises:
        SpecError: the name contains "flash".
    """
    if "flash" in name:
        raise SpecError(
            f"transformers takes {name!r} for the flash-attn package, as any name with 'flash' in it. Use 'fgen'."
        )
    transformers.AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, prefix_mask)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: PrefixMask | torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it.

    Args:
        module: the calling layer; its ``is_causal`` counts where there is no mask.
        query: (B, Hq, Sq, d).
        key: (B, Hkv, Sk, d).
        value: (B, Hkv, Sk, dv).
        attention_mask: what `prefix_mask` returned, or None.
        scaling: the softmax scale.
        dropout: must be 0.
        is_causal: overrides the module's.
        **kwargs: what only other implementations need; score changes are refused.

    Returns:
        (B, Sq, Hq, dv), and no attention weights.

    Raises:
        ArgumentError: the call asks for something that flashgen does not compute.
    """
    changes = [name for name in ("position_bias", "softcap", "s_aux", "head_mask") if kwargs.get(name) is not None]
    if dropout:
        changes.append(f"dropout={dropout}")
    if changes:
        raise ArgumentError(
            f"flashgen does not compute attention with {', '.join(changes)}; use another implementation."
        )
    if isinstance(attention_mask, torch.Tensor):
        attention_mask = _recognise(attention_mask)
    if attention_mask is None:
        attention_mask = _mask_of_module(module, query, key, is_causal, kwargs.get("sliding_window"))
    batch, heads, rows, _ = query.shape
    # transformers wants (B, S, H, dv): write it in that order at once.
    out = torch.empty((batch, rows, heads, value.shape[-1]), dtype=query.dtype, device=query.device)
    attention(
        query,
        key,
        value,
        causal=attention_mask.causal,
        seqlens_k=attention_mask.seqlens_k,
        softmax_scale=scaling,
        out=out.transpose(1, 2),
    )
    return out, None


def prefix_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    **kwargs: Any,
) -> PrefixMask:
    """The mask as transformers asks for it, once for each forward pass.

    Args:
        batch_size: B.
        q_length: Sq.
        kv_length: Sk.
        q_offset: position of the first query.
        kv_offset: position of the first key.
        mask_function: what transformers would evaluate for each (row, key).
        attention_mask: (B, keys seen) bool, False where the input is padding.
        **kwargs: passed on when the mask has to be written out.

    Raises:
        ArgumentError: some row sees something else than a prefix of the keys.
    """
    known = mask_function in (causal_mask_function, bidirectional_mask_function)
    if known and int(kv_offset) == 0:
        lengths = _lengths(attention_mask, kv_length)
        if mask_function is bidirectional_mask_function:
            return PrefixMask(False, lengths)
        if int(q_offset) == 0:
            return PrefixMask("top_left", lengths)
        if lengths is None and int(q_offset) + q_length == kv_length:
            return PrefixMask("bottom_right", None)
    written_out = sdpa_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        **kwargs | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False},
    )
    assert written_out is not None  # skips are off
    return _recognise(written_out)


def _lengths(attention_mask: torch.Tensor | None, kv_length: int) -> torch.Tensor | None:
    """Valid keys of each batch entry, or None if all are valid."""
    if attention_mask is None:
        return None
    valid = attention_mask[:, :kv_length].bool()
    lengths = valid.sum(dim=1)
    prefix = torch.arange(valid.shape[1], device=valid.device) < lengths[:, None]
    if not torch.equal(valid, prefix):
        raise _unknown_mask("it is padded on the left, or in between")
    full = valid.shape[1] == kv_length and bool((lengths == kv_length).all())
    return None if full else lengths


def _recognise(mask: torch.Tensor) -> PrefixMask:
    """Reads a written-out (B or 1, 1, Sq, Sk) mask, bool or additive."""
    visible = mask if mask.dtype == torch.bool else mask == 0
    if visible.shape[1] != 1:
        raise _unknown_mask("it differs from head to head")
    visible = visible[:, 0]
    batch, rows, keys = visible.shape
    counts = visible.sum(dim=2)  # (B, Sq)
    position = torch.arange(keys, device=mask.device)
    if not torch.equal(visible, position < counts[:, :, None]):
        raise _unknown_mask("some row sees something else than a prefix of the keys")
    if mask.dtype != torch.bool and bool((mask[mask != 0] > torch.finfo(mask.dtype).min / 2).any()):
        raise _unknown_mask("it adds a finite bias to the logits")
    lengths = counts.amax(dim=1) if rows else torch.full((batch,), keys)
    row = torch.arange(rows, device=mask.device)
    candidates: tuple[tuple[Alignment, torch.Tensor], ...] = (
        (False, lengths[:, None].expand(-1, rows)),
        ("top_left", torch.minimum(row + 1, lengths[:, None])),
        ("bottom_right", (row + 1 + lengths[:, None] - rows).clamp(min=0)),
    )
    for causal, expected in candidates:
        if torch.equal(counts, expected):
            return PrefixMask(causal, None if bool((lengths == keys).all()) else lengths)
    raise _unknown_mask("the rows' prefixes are neither all equal nor causal")


def _mask_of_module(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, is_causal: bool | None, window: int | None
) -> PrefixMask:
    """What no mask means: causal if the module says so and there is more than one row."""
    if window is not None and window < key.shape[2]:
        raise _unknown_mask(f"it is a sliding window of {window}")
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    return PrefixMask("bottom_right" if causal and query.shape[2] > 1 else False, None)


def _unknown_mask(reason: str) -> ArgumentError:
    return ArgumentError(
        f"flashgen cannot compute this attention mask: {reason}. Pad on the right, or choose another "
        "attn_implementation.",
        tensor="attention_mask",
        expected="full, causal or right-padded",
        got=reason,
    )
