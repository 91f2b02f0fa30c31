// ---- fp16 vectors in integer arithmetic, for targets without conversion instructions. -------------
using ElementVec [[gnu::vector_size(kLanes * sizeof(Element))]] = Element;
using BitsVec [[gnu::vector_size(kLanes * sizeof(uint32_t))]] = uint32_t;

[[maybe_unused]] inline Vec widen(const Element* from) {  // to_compute(), lane by lane
  ElementVec x;
  __builtin_memcpy(&x, from, sizeof(x));
  const BitsVec half = __builtin_convertvector(x, BitsVec);
  const BitsVec magnitude = (half & 0x7fffu) << 13;
  const BitsVec finite = reinterpret_cast<BitsVec>(reinterpret_cast<Vec>(magnitude) * 0x1p112f);
  const BitsVec bits = (half & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : finite;
  return reinterpret_cast<Vec>(bits | (half & 0x8000u) << 16);
}

[[maybe_unused]] inline void narrow(const Vec& x, Element* to) {
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = to_element(x[lane]);
}
