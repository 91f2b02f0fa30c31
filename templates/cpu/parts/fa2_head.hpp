// ---- One (batch, head): what its tasks have in common. --------------------------------------------
struct Head {
  const Element* q;            // (seqlen_q, kHeadDim)
  const Element* k;            // (num_valid, kHeadDim)
  const Element* v;            // (num_valid, kHeadDimV)
  Element* out;                // (seqlen_q, kHeadDimV)
  Compute* lse;                // (seqlen_q,), or null
  int64_t q_stride, k_stride, v_stride, out_stride;  // from row to row, in elements
  int64_t kv_index;                                  // which of all K and V
  int64_t seqlen_q, num_valid;                       // num_valid: keys that exist
  double scale;                // |softmax scale|
  Compute log2_scale;          // scale * log2(e), which is never 0
  Compute q_factor;            // what Q is multiplied with: -1, 0 or 1
};

// A negative scale turns Q around and a scale of 0 makes it 0, so that what is left is positive: the largest
// score stays the one that counts most, and the -inf of a mask never meets a factor 0.
inline Head head_of(const AttentionArgs& args, int64_t index) {
  const int64_t b = index / args.num_heads, h = index % args.num_heads;
  const int64_t h_kv = h / (args.num_heads / args.num_heads_kv);
  const double scale = std::fabs(args.softmax_scale), log2_e = 1.4426950408889634;
  const Compute log2_scale = static_cast<Compute>(std::fmin(scale * log2_e, kLargest));
  const bool flat = log2_scale == 0;
  return {
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      args.lse != nullptr ? static_cast<Compute*>(args.lse) + index * args.seqlen_q : nullptr,
      args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[2],
      b * args.num_heads_kv + h_kv, args.seqlen_q, valid_keys(args, b),
      scale, flat ? 1 : log2_scale, static_cast<Compute>(flat ? 0 : args.softmax_scale < 0 ? -1 : 1),
  };
}

// A block of K and V as the microkernels read it.
struct KvBlock {
  const KeyElement* k;         // (num_keys, kHeadDim)
  const Factor* v;             // (ceil(num_keys / kDepth), kHeadDimV)
  int64_t k_stride, v_stride;
  int64_t num_keys;

  // Some of its keys; `first` is a multiple of kDepth.
  KvBlock keys(int64_t first, int64_t count) const {
    return {k + first * k_stride, v + first / kDepth * v_stride, k_stride, v_stride, count};
  }
};
