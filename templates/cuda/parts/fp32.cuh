// ---- Elements: fp32 in memory, computed in fp32. --------------------------------------------------
using Element = float;
using Compute = float;

__device__ __forceinline__ Compute to_compute(Element x) { return x; }
__device__ __forceinline__ Element to_element(Compute x) { return x; }
__device__ __forceinline__ Compute infinity() { return __int_as_float(0x7f800000); }
