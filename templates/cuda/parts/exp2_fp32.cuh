// ---- 2^x, in one instruction: within 2 ulp for the x <= 0 of a softmax; 0 below 2^-126. -----------
__device__ __forceinline__ Compute exp2_of(Compute x) {
  Compute y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
