// ---- Elements: bf16 in memory, computed in fp32. --------------------------------------------------
using Element = uint16_t;
using Compute = float;

inline Compute to_compute(Element x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
}

// Round to nearest, ties to even; a NaN stays a NaN.
inline Element to_element(Compute x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t quiet_nan = bits >> 16 | 0x40u;
  return static_cast<Element>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}
