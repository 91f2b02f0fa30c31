// ---- Fragments of 8 x 8 matrices, from shared memory. ---------------------------------------------
// Lanes 8 i ... 8 i + 7 name the rows of matrix i, 16 bytes each; every lane gets two elements of each
// matrix: columns 2 t and 2 t + 1 of row g, where g = lane / 4 and t = lane % 4. Transposed: rows for columns.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&x)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x4_transposed(unsigned (&x)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x2(unsigned (&x)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1]) : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x2_transposed(unsigned (&x)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1]) : "r"(address));
}
