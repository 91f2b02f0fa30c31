// ---- fp32 and fp64 vectors: elements are computed with as they are. -------------------------------
[[maybe_unused]] inline Vec widen(const Element* from) {
  Vec x;
  __builtin_memcpy(&x, from, sizeof(x));
  return x;
}

[[maybe_unused]] inline void narrow(const Vec& x, Element* to) { __builtin_memcpy(to, &x, sizeof(x)); }
