// ---- Factors: what is broadcast and multiplied with vectors of queries. Two bf16 of K or V. --------
using KeyElement = Element;
using Factor = uint32_t;                                // the first of the two in the lower half
constexpr int64_t kDepth = 2;                           // dims of K, or rows of V, in a factor
constexpr int64_t kSteps = ceil_div(kHeadDim, kDepth);  // factors in a row of K

// The factor number `step` of a row of Q or K. The last dim of an odd number stands alone.
inline Factor key_factor(const KeyElement* row, int64_t step) {
  if (kHeadDim % kDepth != 0 && step == kSteps - 1) return row[step * kDepth];
  Factor two;
  __builtin_memcpy(&two, row + step * kDepth, sizeof(two));
  return two;
}

// kLanes factors of a row of Q from number `step` on; zeros past its end.
inline Vec load_factors(const Element* q, int64_t step) {
  BitsVec factors = {};
  if constexpr (kHeadDim % kDepth == 0 && kSteps >= kLanes) {
    __builtin_memcpy(&factors, q + step * kDepth, sizeof(factors));
  } else {
    for (int64_t i = 0; i < min_of(kLanes, kSteps); ++i) factors[i] = key_factor(q, step + i);
  }
  return reinterpret_cast<Vec>(factors);
}

// Exact for the numbers that there are: -1, 0 and 1.
inline Vec times(const Vec& factors, Compute number) {
  if (number == 1) return factors;
  const BitsVec bits = reinterpret_cast<BitsVec>(factors);
  const Vec first = reinterpret_cast<Vec>(bits << 16) * number;
  const Vec second = reinterpret_cast<Vec>(bits & 0xffff0000u) * number;
  return reinterpret_cast<Vec>(reinterpret_cast<BitsVec>(first) >> 16 | reinterpret_cast<BitsVec>(second));
}

// Both products are added to the sum in fp32. The instruction takes subnormal numbers for zeros and gives
// zeros instead of them; it neither reads nor changes how the thread rounds.
inline Vec multiply_add(Factor factor, Vec queries, Vec sum) {
  const BitsVec factors = factor - BitsVec{};
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(queries), "v"(factors));
  return sum;
}

// Two rows of P^T as they meet a factor of V: a value of each in every lane, rounded to nearest.
inline Vec pack(const Vec& first, const Vec& second) {
  using Halves [[gnu::vector_size(64)]] = Element;
  Halves x;  // all values of the first row, then those of the second
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(x) : "v"(first), "v"(second));
  return reinterpret_cast<Vec>(__builtin_shufflevector(
      x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
      14, 30, 15, 31));
}
