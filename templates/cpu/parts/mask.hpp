// ---- Mask: every mask here lets a row see a prefix of the keys, so one number describes it. ------

// Number of keys that batch entry b has (the rest is padding).
inline int64_t valid_keys(const AttentionArgs& args, int64_t b) {
  return args.seqlens_k != nullptr ? args.seqlens_k[b] : args.seqlen_k;
}

// Number of keys that query row i sees: keys 0 .. visible_keys - 1, none if it is 0.
inline int64_t visible_keys(int64_t i, int64_t seqlen_q, int64_t num_valid) {
  if constexpr (kCausal == Causal::kNone) return num_valid;
  const int64_t diagonal = kCausal == Causal::kTopLeft ? i + 1 : i + 1 + num_valid - seqlen_q;
  return diagonal < 0 ? 0 : diagonal < num_valid ? diagonal : num_valid;
}
