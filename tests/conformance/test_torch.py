"""torch tensors on the CPU: same kernels, same bits, torch's own attention as a second oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flashgen.errors import ArgumentError
from flashgen.verification import verify

torch = pytest.importorskip("torch")

D = 16
SHAPE = (2, 4, 2, 33, 70)


def tensor(x, dtype):
    """A tensor of the array's values."""
    names = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
    return torch.from_numpy(x.astype(np.float64)).to(names[dtype])


def bits(x):
    return x.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.fixture
def made(cpu_backend, draw):
    """A kernel, its arrays, and the same values as tensors."""

    def make(dtype="fp32", causal=False):
        kernel = cpu_backend.build(D, dtype, causal)
        arrays = draw(SHAPE, D, dtype=dtype)
        return kernel.attention, arrays, [tensor(x, dtype) for x in arrays]

    return make


def test_torch_in_torch_out_with_the_bits_of_numpy(made, dtype, causal):
    attn, arrays, tensors = made(dtype, causal)
    out, lse = attn(*tensors, return_lse=True, seqlens_k=torch.tensor([70, 12]))
    want, want_lse = attn(*arrays, return_lse=True, seqlens_k=[70, 12])
    assert isinstance(out, torch.Tensor)
    assert isinstance(lse, torch.Tensor)
    assert out.dtype == tensors[0].dtype
    assert lse.dtype == (torch.float64 if dtype == "fp64" else torch.float32)
    assert (bits(out), bits(lse)) == (want.tobytes(), want_lse.tobytes())


def test_kernels_pass_verification_on_tensors(cpu_backend, dtype):
    kernel = replace(cpu_backend, library="torch").build(D, dtype, "bottom_right")
    report = verify(kernel, kernel.spec)
    assert report.passed, report.summary()


@pytest.mark.parametrize("is_causal", [False, True])
def test_torchs_own_attention_agrees(made, is_causal):
    attn, _, (q, k, v) = made("fp32", "top_left" if is_causal else False)
    want = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=is_causal, enable_gqa=True
    )
    torch.testing.assert_close(attn(q, k, v).double(), want, rtol=0, atol=2e-6)


VIEWS = {
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "sliced": lambda x: torch.nn.functional.pad(x, (3, 2, 1, 1, 1, 1), value=float("nan"))[:, 1:-1, 1:-1, 3:-2],
    "offset by one": lambda x: torch.cat([torch.full((1,), float("nan"), dtype=x.dtype), x.flatten()])[1:].view(
        x.shape
    ),
    "last axis strided": lambda x: torch.stack([x, x * float("nan")], dim=-1)[..., 0],
    "last axis first": lambda x: x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("view", VIEWS)
def test_strided_tensors(made, two_dtypes, view):
    attn, _, tensors = made(two_dtypes, "bottom_right")
    strided = [VIEWS[view](x) for x in tensors]
    assert all(torch.equal(a, b) for a, b in zip(strided, tensors, strict=True))
    for mixed in (strided, [strided[0], *tensors[1:]], [*tensors[:2], strided[2]]):
        assert bits(attn(*mixed)) == bits(attn(*tensors))


def test_expanded_tensors(made):
    attn, _, (q, k, v) = made()
    expanded = k[:, :1].expand(k.shape), v[:1].expand(v.shape)
    assert bits(attn(q, *expanded)) == bits(attn(q, *(x.contiguous() for x in expanded)))


def test_lazily_negated_tensors(made):
    """The imaginary part of a conjugate is a view with a sign that its memory does not have."""
    attn, _, (q, k, v) = made()
    pairs = torch.view_as_complex(torch.stack([q, q], dim=-1))
    strided = pairs.imag, pairs.conj().imag
    dense = [x.as_strided(q.shape, (0, 0, 2, 1)) for x in strided]
    for plain, negated in (strided, dense):
        assert negated.is_neg() and not plain.is_neg()
        assert plain.stride() == negated.stride()
        positive, negative = bits(attn(plain, k, v)), bits(attn(negated, k, v))
        assert negative != positive
        assert negative == bits(attn(-plain, k, v))
    assert bits(attn(q, k, torch.complex(v, v).conj().imag)) == bits(attn(q, k, -v))


def test_a_tensor_over_unaligned_memory(made):
    """frombuffer may start at any byte; an aligned tensor of equal shape and strides came before."""
    attn, _, (q, k, v) = made()
    want = bits(attn(q, k, v))
    memory = bytearray(b"\0" + bits(q))
    unaligned = torch.frombuffer(memory, dtype=torch.float32, offset=1).view(q.shape)
    assert unaligned.data_ptr() % 4 != 0 and unaligned.stride() == q.stride()
    assert bits(attn(unaligned, k, v)) == want


# ---- out= ----


def test_out_is_honoured(made, dtype):
    attn, _, tensors = made(dtype)
    want = bits(attn(*tensors))
    buffer = torch.full((2, 35, 4, D + 3), float("nan"), dtype=tensors[0].dtype)
    out = buffer[:, 1:-1, :, 2:-1].transpose(1, 2)
    assert attn(*tensors, out=out) is out
    assert bits(out) == want
    out.fill_(float("nan"))
    assert buffer.isnan().all()


@pytest.mark.parametrize(
    "make",
    [
        lambda q: torch.empty(2, 4, 33, D + 1),
        lambda q: torch.empty(2, 4, 33, D, dtype=torch.float64),
        lambda q: torch.empty(2, 4, 33, D, device="meta"),
        lambda q: torch.empty(2, 4, 33, 2 * D)[..., ::2],
        lambda q: torch.empty(1, 4, 33, D).expand(2, 4, 33, D),
        lambda q: torch.empty(2, 4, 33, D, requires_grad=True),
        lambda q: np.empty((2, 4, 33, D), np.float32),
    ],
    ids=["shape", "dtype", "device", "last axis strided", "expanded", "requires grad", "numpy"],
)
def test_out_that_does_not_fit_is_refused(made, make):
    attn, _, tensors = made()
    with pytest.raises(ArgumentError) as caught:
        attn(*tensors, out=make(tensors[0]))
    assert caught.value.tensor == "out"


def test_out_may_not_overlap_an_input(made):
    attn, _, (q, k, v) = made()
    with pytest.raises(ArgumentError, match="overlap"):
        attn(q, k, v, out=q)


# ---- Autograd ----


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_gradient_is_refused_rather_than_lost(made, which):
    attn, _, tensors = made()
    want = bits(attn(*tensors))
    tensors[which].requires_grad_()
    with pytest.raises(ArgumentError, match="gradient"):
        attn(*tensors)
    with torch.no_grad():
        assert bits(attn(*tensors)) == want
    with torch.inference_mode():
        assert bits(attn(*tensors)) == want
    assert bits(attn(*(x.detach() for x in tensors))) == want


def test_parameters_and_inference_tensors_are_tensors(made):
    attn, _, (q, k, v) = made()
    want = bits(attn(q, k, v))
    with torch.no_grad():
        assert bits(attn(q, torch.nn.Parameter(k), torch.nn.Parameter(v, requires_grad=False))) == want
    with torch.inference_mode():
        q, k, v = (x.clone() for x in (q, k, v))
    assert bits(attn(q, k, v)) == want


# ---- Mixtures ----


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_tensors_on_several_devices_are_refused(made, name):
    attn, _, tensors = made()
    call = dict(zip("qkv", tensors, strict=True))
    call[name] = call[name].to("meta")
    with pytest.raises(ArgumentError) as caught:
        attn(**call)
    assert caught.value.tensor == name
    assert "cpu" in caught.value.expected
    assert "meta" in caught.value.got


@pytest.mark.parametrize("name", ["k", "v"])
def test_arrays_and_tensors_do_not_mix(made, name):
    attn, arrays, tensors = made()
    call = dict(zip("qkv", tensors, strict=True)) | {name: arrays["qkv".index(name)]}
    with pytest.raises(ArgumentError) as caught:
        attn(**call)
    assert caught.value.tensor == name
    assert "torch" in caught.value.expected


@pytest.mark.parametrize(
    ("name", "change", "got"),
    [
        ("q", lambda x: x.to(torch.int32), "int32"),
        ("k", lambda x: x.half(), "float16"),
        ("v", lambda x: x.to(torch.float8_e4m3fn), "float8_e4m3fn"),
        ("q", lambda x: torch.complex(x, x), "complex64"),
        ("k", lambda x: x.to_sparse(), "sparse"),
        ("q", lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "q"),
    ],
    ids=lambda x: x if isinstance(x, str) else None,
)
@pytest.mark.filterwarnings("ignore:.*quantiz.*")
def test_tensors_of_the_wrong_kind_are_refused(made, name, change, got):
    attn, _, tensors = made()
    call = dict(zip("qkv", tensors, strict=True))
    call[name] = change(call[name])
    with pytest.raises(ArgumentError) as caught:
        attn(**call)
    assert caught.value.tensor == name
    assert got in caught.value.got


def test_lengths_may_be_a_tensor_of_any_whole_type(made):
    attn, _, tensors = made()
    want = bits(attn(*tensors, seqlens_k=[3, 70]))
    for dtype in (torch.int32, torch.int64, torch.uint8):
        assert bits(attn(*tensors, seqlens_k=torch.tensor([3, 70], dtype=dtype))) == want
    with pytest.raises(ArgumentError) as caught:
        attn(*tensors, seqlens_k=torch.tensor([3.0, 70.0]))
    assert caught.value.tensor == "seqlens_k"
