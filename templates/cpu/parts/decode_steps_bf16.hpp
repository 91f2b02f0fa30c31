// ---- Steps through a row of bf16: two vectors each, of the even elements and of the odd ones. ------
// Two neighbours lie in the halves of 32 bits, and the upper half of an fp32 is a bf16: a shift gives the
// first, a mask the second.
constexpr int64_t kStepVecs = 2;
using PairVec [[gnu::vector_size(kLanes * sizeof(uint32_t))]] = uint32_t;

inline void load_step(const Element* from, Vec (&x)[kStepVecs]) {
  PairVec pairs;
  __builtin_memcpy(&pairs, from, sizeof(pairs));
  x[0] = reinterpret_cast<Vec>(pairs << 16);
  x[1] = reinterpret_cast<Vec>(pairs & 0xffff0000u);
}

inline void store_step(const Vec (&x)[kStepVecs], Element* to) {  // to_element(), lane by lane
  PairVec rounded[kStepVecs];
  for (int vec = 0; vec < kStepVecs; ++vec) {
    const PairVec bits = reinterpret_cast<PairVec>(x[vec]);
    rounded[vec] = bits + 0x7fffu + (bits >> 16 & 1u);
    rounded[vec] = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded[vec];
  }
  const PairVec pairs = rounded[0] >> 16 | (rounded[1] & 0xffff0000u);
  __builtin_memcpy(to, &pairs, sizeof(pairs));
}
