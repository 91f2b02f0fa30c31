// ---- Elements: fp64 in memory, computed in fp64. --------------------------------------------------
using Element = double;
using Compute = double;

__device__ __forceinline__ Compute to_compute(Element x) { return x; }
__device__ __forceinline__ Element to_element(Compute x) { return x; }
__device__ __forceinline__ Compute infinity() { return __longlong_as_double(0x7ff0000000000000); }
