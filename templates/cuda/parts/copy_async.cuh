// ---- cp.async: global to shared memory past the registers, while the warps compute. ---------------
template <int kRows, int kIn>
struct Incoming {};  // nothing is in registers

// kWhole: all rows exist.
template <bool kWhole, int kRows, int kIn>
__device__ __forceinline__ void start_copy(Incoming<kRows, kIn>&, uint4 (&tile)[kRows][kIn],
                                           const Element* first, int64 from_row, int num_rows) {
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    if (!Share<kRows, kIn>::has(n)) continue;
    const unsigned to = shared_address(&Share<kRows, kIn>::destination(tile, n));
    const Element* source = Share<kRows, kIn>::source(first, from_row, n);
    if (kWhole) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(source) : "memory");
    } else {
      const bool inside = static_cast<int>(Share<kRows, kIn>::place(n).row) < num_rows;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :: "r"(to), "l"(inside ? source : first), "r"(inside ? 16 : 0) : "memory");
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// This thread's chunks have arrived; a barrier is needed before others read them.
template <int kRows, int kIn>
__device__ __forceinline__ void finish_copy(const Incoming<kRows, kIn>&, uint4 (&)[kRows][kIn]) {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}
