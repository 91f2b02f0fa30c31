// ---- Elements: bf16 in memory, computed in fp32. --------------------------------------------------
// Integer arithmetic only: bf16 instructions begin with sm_80.
using Element = unsigned short;
using Compute = float;

__device__ __forceinline__ Compute to_compute(Element x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}

// Round to nearest, ties to even; a NaN stays a NaN.
__device__ __forceinline__ Element to_element(Compute x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const unsigned quiet_nan = bits >> 16 | 0x40u;
  return static_cast<Element>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

__device__ __forceinline__ Compute infinity() { return __int_as_float(0x7f800000); }
