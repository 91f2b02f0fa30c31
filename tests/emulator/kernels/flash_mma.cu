// The forward pass of FlashAttention on tensor cores: d = 64, fp16, 64 rows of one head to a block of 4 warps.
// Small enough to read at one sitting, and with everything that the emulator must understand of such a kernel:
// asynchronous copies with zero fill, swizzled tiles, ldmatrix with and without .trans, products in registers.
typedef unsigned short u16;
typedef unsigned int u32;

constexpr int kD = 64, kBr = 64, kBc = 64, kWarps = 4, kThreads = 32 * kWarps;
constexpr int kRowBytes = 2 * kD, kChunks = kRowBytes / 16;
constexpr int kTileBytes = kBc * kRowBytes;  // Q, then K, then V

__device__ u32 address_of(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Equal chunks of 8 rows lie in different banks.
__device__ u32 place(int row, int chunk) { return row * kRowBytes + 16 * (chunk ^ (row & 7)); }

__device__ void copy_16_async(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ void commit() { asm volatile("cp.async.commit_group;"); }
__device__ void wait_for_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

__device__ void load_matrices(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
__device__ void load_matrices_transposed(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
__device__ void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ u32 pack(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// 64 rows of a matrix with `rows` rows; those beyond it become zero.
__device__ void load_tile(u32 tile, const u16* matrix, int first, int rows) {
#pragma unroll
  for (int k = 0; k < kBc * kChunks / kThreads; ++k) {
    const int c = k * kThreads + threadIdx.x, row = c / kChunks, chunk = c % kChunks;
    const bool inside = first + row < rows;
    copy_16_async(tile + place(row, chunk), matrix + (inside ? first + row : 0) * kD + 8 * chunk, inside ? 16 : 0);
  }
  commit();
}

extern "C" __global__ void __launch_bounds__(kThreads) flash_mma(
    const u16* q, const u16* k, const u16* v, u16* out, float* lse, int seqlen_q, int seqlen_k, float scale, int causal) {
  extern __shared__ __align__(128) unsigned char smem[];
  const u32 q_smem = address_of(smem), k_smem = q_smem + kTileBytes, v_smem = k_smem + kTileBytes;
  const int head = blockIdx.y, first_row = blockIdx.x * kBr, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4, row = first_row + 16 * warp + g;  // and row + 8
  const float c = scale * 1.4426950408889634f, kNone = __int_as_float(0xff800000);
  k += head * seqlen_k * kD;
  v += head * seqlen_k * kD;
  const int keys = causal ? min(seqlen_k, first_row + kBr) : seqlen_k;

  load_tile(q_smem, q + head * seqlen_q * kD, first_row, seqlen_q);
  load_tile(k_smem, k, 0, seqlen_k);
  float o[kD / 8][4] = {}, m[2] = {kNone, kNone}, l[2] = {};
  for (int j = 0; j < keys; j += kBc) {
    wait_for_copies();  // K
    __syncthreads();    // of all threads; and nobody needs the last V any more
    load_tile(v_smem, v, j, seqlen_k);

    float s[kBc / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < kD / 16; ++kk) {
      u32 a[4];
      load_matrices(a, q_smem + place(16 * warp + lane % 16, 2 * kk + lane / 16));
#pragma unroll
      for (int n = 0; n < kBc / 16; ++n) {
        u32 b[4];
        load_matrices(b, k_smem + place(16 * n + lane % 8 + lane / 16 * 8, 2 * kk + lane / 8 % 2));
        multiply_add(s[2 * n], a, b[0], b[1]);
        multiply_add(s[2 * n + 1], a, b[2], b[3]);
      }
    }
    wait_for_copies();  // V
    __syncthreads();    // of all threads; and nobody needs K any more
    if (j + kBc < keys) load_tile(k_smem, k, j + kBc, seqlen_k);

    if (j + kBc > seqlen_k || causal) {
#pragma unroll
      for (int n = 0; n < kBc / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int key = j + 8 * n + 2 * t + e % 2;
          if (key >= seqlen_k || (causal && key > row + e / 2 * 8)) s[n][e] = kNone;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // row, row + 8
      float top = m[h];
#pragma unroll
      for (int n = 0; n < kBc / 8; ++n) top = fmaxf(top, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
      top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
      const float shift = top == kNone ? 0 : top * c, alpha = exp2_fast(m[h] * c - shift);
      m[h] = top;
      l[h] *= alpha;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) o[n][2 * h] *= alpha, o[n][2 * h + 1] *= alpha;
#pragma unroll
      for (int n = 0; n < kBc / 8; ++n)
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[n][e] = exp2_fast(s[n][e] * c - shift);
          l[h] += s[n][e];
        }
    }
#pragma unroll
    for (int kk = 0; kk < kBc / 16; ++kk) {
      const u32 a[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                        pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) {
        u32 b[4];
        load_matrices_transposed(b, v_smem + place(16 * kk + lane % 16, 2 * n + lane / 16));
        multiply_add(o[2 * n], a, b[0], b[1]);
        multiply_add(o[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    l[h] += __shfl_xor_sync(~0u, l[h], 1);
    l[h] += __shfl_xor_sync(~0u, l[h], 2);
    if (row + 8 * h >= seqlen_q) continue;
    const int at = head * seqlen_q + row + 8 * h;
    const float inverse = l[h] > 0 ? 1 / l[h] : 0;
    if (t == 0) lse[at] = l[h] > 0 ? m[h] * scale + logf(l[h]) : kNone;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
      *reinterpret_cast<u32*>(out + at * kD + 8 * n + 2 * t) = pack(o[n][2 * h] * inverse, o[n][2 * h + 1] * inverse);
  }
}
