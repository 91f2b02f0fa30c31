// ---- cp.async: global to shared memory past the registers, kStages - 1 blocks ahead. --------------
// Rows from num_rows on become zeros.
template <int kDim, int kRows, int kIn>
__device__ __forceinline__ void copy_rows(uint4 (&tile)[kRows][kIn], const Element* from, int64 from_row, int num_rows,
                                          bool vectors) {
  const Element* first = Share<kRows, kIn>::first(from, from_row);
  if (!vectors) return copy_elements<kDim>(tile, first, from_row, num_rows);
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    if (!Share<kRows, kIn>::has(n)) continue;
    const bool inside = static_cast<int>(Share<kRows, kIn>::place(n).row) < num_rows;
    const Element* source = Share<kRows, kIn>::source(first, from_row, n);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(&Share<kRows, kIn>::destination(tile, n))), "l"(inside ? source : from),
                    "r"(inside ? 16 : 0) : "memory");
  }
}

// One group for each block, even an empty one: so the oldest but kStages - 2 have arrived.
__device__ __forceinline__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_block() {
  asm volatile("cp.async.wait_group %0;" :: "n"(kStages - 2) : "memory");
}
