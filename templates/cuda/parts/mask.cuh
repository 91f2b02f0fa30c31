// ---- Mask: every mask here lets a row see a prefix of the keys, so one number describes it. ------

// Number of keys that batch entry b has (the rest is padding).
__device__ __forceinline__ int64 valid_keys(const AttentionArgs& args, int64 b) {
  return args.seqlens_k != nullptr ? max(min(args.seqlens_k[b], args.seqlen_k), 0ll) : args.seqlen_k;
}

// Number of keys that query row i sees: keys 0 .. visible_keys - 1, none if it is 0.
__device__ __forceinline__ int64 visible_keys(int64 i, int64 seqlen_q, int64 num_valid) {
  if (kCausal == Causal::kNone) return num_valid;
  const int64 diagonal = kCausal == Causal::kTopLeft ? i + 1 : i + 1 + num_valid - seqlen_q;
  return max(min(diagonal, num_valid), 0ll);
}
