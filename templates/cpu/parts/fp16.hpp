// ---- Elements: fp16 in memory, computed in fp32. --------------------------------------------------
// Integer arithmetic only, so that any x86-64 or ARM compiler can vectorise it.
using Element = uint16_t;
using Compute = float;

inline Compute to_compute(Element x) {
  const uint32_t sign = (x & 0x8000u) << 16;
  const uint32_t magnitude = (x & 0x7fffu) << 13;
  // Moving the exponent from bias 15 to bias 127 is a product with 2^112, exact for subnormals too.
  const float finite = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const uint32_t special = magnitude | 0x7f800000u;  // inf and NaN keep their payload
  const uint32_t bits = (x & 0x7c00u) == 0x7c00u ? special : __builtin_bit_cast(uint32_t, finite);
  return __builtin_bit_cast(float, bits | sign);
}

// Round to nearest, ties to even; overflow gives inf, a NaN stays a NaN.
inline Element to_element(Compute x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  // Below 2^-14 the result is subnormal: adding 0.5 lets the FPU round at 2^-24.
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const uint32_t rounded = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t finite = magnitude >= 0x477ff000u ? 0x7c00u : rounded;
  const uint32_t quiet_nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  return static_cast<Element>((magnitude > 0x7f800000u ? quiet_nan : finite) | sign);
}
