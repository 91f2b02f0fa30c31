// ---- fp16 vectors, 16 lanes: AVX-512 converts. ----------------------------------------------------
using ElementVec [[gnu::vector_size(32)]] = short;

[[maybe_unused]] inline Vec widen(const Element* from) {
  ElementVec x;
  __builtin_memcpy(&x, from, sizeof(x));
  return __builtin_ia32_vcvtph2ps512_mask(x, Vec{}, 0xffff, 4);  // 0xffff: all lanes; 4: the usual rounding
}

[[maybe_unused]] inline void narrow(const Vec& x, Element* to) {
  // 0: to nearest, ties to even
  const ElementVec y = __builtin_ia32_vcvtps2ph512_mask(x, 0, ElementVec{}, 0xffff);
  __builtin_memcpy(to, &y, sizeof(y));
}
