// ---- fp16 vectors, 8 lanes: F16C converts. --------------------------------------------------------
using ElementVec [[gnu::vector_size(16)]] = short;

[[maybe_unused]] inline Vec widen(const Element* from) {
  ElementVec x;
  __builtin_memcpy(&x, from, sizeof(x));
  return __builtin_ia32_vcvtph2ps256(x);
}

[[maybe_unused]] inline void narrow(const Vec& x, Element* to) {
  const ElementVec y = __builtin_ia32_vcvtps2ph256(x, 0);  // 0: to nearest, ties to even
  __builtin_memcpy(to, &y, sizeof(y));
}
