// ---- Elements: fp16 in memory, computed in fp32. --------------------------------------------------
using Element = unsigned short;
using Compute = float;

__device__ __forceinline__ Compute to_compute(Element x) {
  Compute y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

// Round to nearest, ties to even; overflow gives inf, a NaN stays a NaN.
__device__ __forceinline__ Element to_element(Compute x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ Compute infinity() { return __int_as_float(0x7f800000); }
