// ---- 2^x for x <= 0, relative error below 1.5e-7; AVX-512 splits x and puts the result together. --
// x = n + f with n whole and 0 <= f <= 1. A minimax polynomial gives 2^f; its constant term is exactly 1, so
// that a lone key gets weight 1. What is below the range of fp32 becomes 0, and a NaN stays a NaN.
// Several vectors take each operation together: chains of operations one after the other would fill the
// schedulers of the core with waiting instructions.
template <int kCount>
inline void exp2_of(Vec (&x)[kCount]) {
  constexpr float kPolynomial[] = {9.01748147e-3f, 5.57995141e-2f, 2.40164593e-1f, 6.93151295e-1f, 1.0f};
  Vec f[kCount], two_to_f[kCount];
  UNROLLED for (int i = 0; i < kCount; ++i) asm("vreduceps $1, %1, %0" : "=v"(f[i]) : "v"(x[i]));  // $1: down
  UNROLLED for (int i = 0; i < kCount; ++i) two_to_f[i] = splat(1.86695158e-3f);
  for (const float coefficient : kPolynomial)
    UNROLLED for (int i = 0; i < kCount; ++i) two_to_f[i] = two_to_f[i] * f[i] + coefficient;
  UNROLLED for (int i = 0; i < kCount; ++i) asm("vscalefps %1, %0, %0" : "+v"(two_to_f[i]) : "v"(x[i]));
  UNROLLED for (int i = 0; i < kCount; ++i) x[i] = two_to_f[i];
}
