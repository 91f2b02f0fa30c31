// ---- Turing has no cp.async: chunks pass through registers at once; other CTAs hide the wait. -----
// Rows from num_rows on become zeros.
template <int kDim, int kRows, int kIn>
__device__ __forceinline__ void copy_rows(uint4 (&tile)[kRows][kIn], const Element* from, int64 from_row, int num_rows,
                                          bool vectors) {
  const Element* first = Share<kRows, kIn>::first(from, from_row);
  if (!vectors) return copy_elements<kDim>(tile, first, from_row, num_rows);
  uint4 chunk[Share<kRows, kIn>::kCount];
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    const bool inside = Share<kRows, kIn>::has(n) && static_cast<int>(Share<kRows, kIn>::place(n).row) < num_rows;
    const Element* source = Share<kRows, kIn>::source(first, from_row, n);
    chunk[n] = inside ? *reinterpret_cast<const uint4*>(source) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n)
    if (Share<kRows, kIn>::has(n)) Share<kRows, kIn>::destination(tile, n) = chunk[n];
}

__device__ __forceinline__ void close_group() {}
__device__ __forceinline__ void wait_for_block() {}
