// ---- Factors: what is broadcast and multiplied with vectors of queries. Two bf16 of K or V. --------
using KeyElement = Element;
using Factor = uint32_t;       // the first of the two in the lower half
constexpr int64_t kDepth = 2;  // dims of K, or rows of V, in a factor

// The factor number `step` of a row of K. The last dim of an odd number stands alone.
inline Factor key_factor(const KeyElement* k, int64_t step) {
  if (kHeadDim % kDepth != 0 && step == kHeadDim / kDepth) return k[step * kDepth];
  Factor two;
  __builtin_memcpy(&two, k + step * kDepth, sizeof(two));
  return two;
}

// Both products are added to the sum in fp32. The instruction takes subnormal numbers for zeros and gives
// zeros instead of them; neither reads nor changes it how the thread rounds.
inline Vec multiply_add(Factor factor, Vec queries, Vec sum) {
  const BitsVec factors = factor - BitsVec{};
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(queries), "v"(factors));
  return sum;
}

// Two rows of Q^T or P^T as they meet such a factor: a value of each in every lane, rounded to nearest.
inline Vec pack(const Vec& first, const Vec& second) {
  using Halves [[gnu::vector_size(64)]] = Element;
  Halves x;  // all values of the first row, then those of the second
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(x) : "v"(first), "v"(second));
  return reinterpret_cast<Vec>(__builtin_shufflevector(
      x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
      14, 30, 15, 31));
}
