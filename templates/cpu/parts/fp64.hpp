// ---- Elements: fp64 in memory, computed in fp64. --------------------------------------------------
using Element = double;
using Compute = double;

inline Compute to_compute(Element x) { return x; }
inline Element to_element(Compute x) { return x; }
