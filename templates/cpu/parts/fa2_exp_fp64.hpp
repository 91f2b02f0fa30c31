// ---- 2^x for x <= 0, relative error below 5e-16. --------------------------------------------------
// x = n + f with n whole and |f| <= 1/2. Adding 1.5 * 2^52 + 1023 rounds x to n and leaves n + 1023, the
// exponent field of 2^n, in the low bits of the sum. A minimax polynomial gives 2^f; its constant term
// is exactly 1, so that a lone key gets weight 1. Where n < -1023 there is no such exponent: exactly 0.
// A NaN is not less than anything and outlives every product, so it shows.
inline Vec exp2_of(Vec x) {
  constexpr double kRounder = 0x1.8p52 + 1023.0;
  const Vec shifted = x + kRounder;
  const Vec f = x - (shifted - kRounder);
  const Vec two_to_n = reinterpret_cast<Vec>(reinterpret_cast<IntVec>(shifted) << 52);
  Vec two_to_f = f * 4.434771298200376708e-10 + 7.073783248503133299e-9;
  two_to_f = two_to_f * f + 1.017819957184213797e-7;
  two_to_f = two_to_f * f + 1.3215435282308488e-6;
  two_to_f = two_to_f * f + 1.525273349312748935e-5;
  two_to_f = two_to_f * f + 1.540353045711209086e-4;
  two_to_f = two_to_f * f + 1.333355814677462052e-3;
  two_to_f = two_to_f * f + 9.61812910759412009e-3;
  two_to_f = two_to_f * f + 5.550410866482008323e-2;
  two_to_f = two_to_f * f + 2.402265069591013126e-1;
  two_to_f = two_to_f * f + 6.931471805599453258e-1;
  two_to_f = two_to_f * f + 1.0;
  return shifted < kRounder - 1023.0 ? Vec{} : two_to_f * two_to_n;
}

template <int kCount>
inline void exp2_of(Vec (&x)[kCount]) {
  UNROLLED for (int i = 0; i < kCount; ++i) x[i] = exp2_of(x[i]);
}
