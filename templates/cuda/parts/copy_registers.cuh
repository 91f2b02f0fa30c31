// ---- Turing has no cp.async: chunks wait in registers while the warps compute. --------------------
template <int kRows, int kIn>
struct Incoming {
  uint4 chunk[Share<kRows, kIn>::kCount];
};

// kWhole: all rows exist.
template <bool kWhole, int kRows, int kIn>
__device__ __forceinline__ void start_copy(Incoming<kRows, kIn>& incoming, uint4 (&)[kRows][kIn],
                                           const Element* first, int64 from_row, int num_rows) {
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    const int row = static_cast<int>(Share<kRows, kIn>::place(n).row);
    const bool inside = Share<kRows, kIn>::has(n) && (kWhole || row < num_rows);
    const Element* source = Share<kRows, kIn>::source(first, from_row, n);
    incoming.chunk[n] = inside ? *reinterpret_cast<const uint4*>(source) : make_uint4(0, 0, 0, 0);
  }
}

// This thread's chunks have arrived; a barrier is needed before others read them.
template <int kRows, int kIn>
__device__ __forceinline__ void finish_copy(const Incoming<kRows, kIn>& incoming, uint4 (&tile)[kRows][kIn]) {
#pragma unroll
  for (int n = 0; n < Share<kRows, kIn>::kCount; ++n) {
    if (Share<kRows, kIn>::has(n)) Share<kRows, kIn>::destination(tile, n) = incoming.chunk[n];
  }
}
