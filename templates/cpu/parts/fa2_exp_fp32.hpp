// ---- 2^x for x <= 0, relative error below 2e-7. ---------------------------------------------------
// x = n + f with n whole and |f| <= 1/2. Adding 1.5 * 2^23 + 127 rounds x to n and leaves n + 127, the
// exponent field of 2^n, in the low bits of the sum. A minimax polynomial gives 2^f; its constant term
// is exactly 1, so that a lone key gets weight 1. Where n < -127 there is no such exponent: exactly 0.
// A NaN is not less than anything and outlives every product, so it shows.
inline Vec exp2_of(Vec x) {
  constexpr float kRounder = 0x1.8p23f + 127.0f;
  const Vec shifted = x + kRounder;
  const Vec f = x - (shifted - kRounder);
  const Vec two_to_n = reinterpret_cast<Vec>(reinterpret_cast<IntVec>(shifted) << 23);
  Vec two_to_f = f * 1.32647271e-3f + 9.67151264e-3f;
  two_to_f = two_to_f * f + 5.55073374e-2f;
  two_to_f = two_to_f * f + 2.40222421e-1f;
  two_to_f = two_to_f * f + 6.93146978e-1f;
  two_to_f = two_to_f * f + 1.0f;
  return shifted < kRounder - 127.0f ? Vec{} : two_to_f * two_to_n;
}

template <int kCount>
inline void exp2_of(Vec (&x)[kCount]) {
  UNROLLED for (int i = 0; i < kCount; ++i) x[i] = exp2_of(x[i]);
}
