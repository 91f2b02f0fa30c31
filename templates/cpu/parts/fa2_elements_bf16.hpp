// ---- bf16 vectors: a bf16 is the upper half of an fp32. -------------------------------------------
using ElementVec [[gnu::vector_size(kLanes * sizeof(Element))]] = Element;
using BitsVec [[gnu::vector_size(kLanes * sizeof(uint32_t))]] = uint32_t;

[[maybe_unused]] inline Vec widen(const Element* from) {
  ElementVec x;
  __builtin_memcpy(&x, from, sizeof(x));
  return reinterpret_cast<Vec>(__builtin_convertvector(x, BitsVec) << 16);
}

[[maybe_unused]] inline void narrow(const Vec& x, Element* to) {  // to_element(), lane by lane
  const BitsVec bits = reinterpret_cast<BitsVec>(x);
  const BitsVec rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const BitsVec chosen = (bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded;
  const ElementVec y = __builtin_convertvector(chosen, ElementVec);
  __builtin_memcpy(to, &y, sizeof(y));
}
