// ---- Elements: fp32 in memory, computed in fp32. --------------------------------------------------
using Element = float;
using Compute = float;

inline Compute to_compute(Element x) { return x; }
inline Element to_element(Compute x) { return x; }
