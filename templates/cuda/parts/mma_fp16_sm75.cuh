// ---- Tensor cores: c += a b, fp16 in, fp32 out. g = lane / 4, t = lane % 4. ------------------------
// a: 16 rows; a[0] holds row g, a[1] row g + 8, columns 2 t and 2 t + 1; a[2] and a[3] the columns 8 further.
// b: 8 columns; b0 holds rows 2 t and 2 t + 1 of column g, b1 the rows 8 further.
// c: c[0] and c[1] are columns 2 t and 2 t + 1 of row g, c[2] and c[3] those of row g + 8.
__device__ __forceinline__ void mma_k8(float (&c)[4], const unsigned (&a)[2], unsigned b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b));
}

__device__ __forceinline__ void mma_k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma_k8(c, {a[0], a[1]}, b0);  // Turing multiplies 8 at a time
  mma_k8(c, {a[2], a[3]}, b1);
}

// Two values, rounded to nearest, the first in the low half.
__device__ __forceinline__ unsigned pack(float low, float high) {
  return to_element(low) | static_cast<unsigned>(to_element(high)) << 16;
}
