// ---- One (batch, key head), and the query rows of all heads that share its K and V. ----------------
// Line 1: row number r is query r / heads of head r % heads, so that later rows see no fewer keys.
struct Group {
  const Element *q, *k, *v;
  Element* out;
  Compute* lse;                // or null
  int64_t q_head, q_stride, k_stride, v_stride, out_head, out_stride;  // from head to head, row to row
  int64_t heads, seqlen_q;
  int64_t num_valid;           // keys that exist
  double scale;                // |softmax scale|
  Compute log2_scale;          // scale * log2(e), which is never 0
  Compute q_factor;            // what Q is multiplied with: -1, 0 or 1

  int64_t num_visible(int64_t row) const { return visible_keys(row / heads, seqlen_q, num_valid); }
  const Element* q_row(int64_t row) const { return q + row % heads * q_head + row / heads * q_stride; }
  Element* out_row(int64_t row) const { return out + row % heads * out_head + row / heads * out_stride; }
};

// A negative scale turns Q around and a scale of 0 makes it 0, so that what is left is positive: the largest
// score stays the one that counts most, and the -inf of a mask never meets a factor 0.
inline Group group_of(const AttentionArgs& args, int64_t index) {
  const int64_t b = index / args.num_heads_kv, h_kv = index % args.num_heads_kv;
  const int64_t heads = args.num_heads / args.num_heads_kv, h = h_kv * heads;
  const double scale = std::fabs(args.softmax_scale), log2_e = 1.4426950408889634;
  const Compute log2_scale = static_cast<Compute>(std::fmin(scale * log2_e, kLargest));
  const bool flat = log2_scale == 0;
  Compute* const lse = static_cast<Compute*>(args.lse);
  return {
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      lse != nullptr ? lse + (b * args.num_heads + h) * args.seqlen_q : nullptr,
      args.q_stride[1], args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[1],
      args.out_stride[2], heads, args.seqlen_q, valid_keys(args, b),
      scale, flat ? 1 : log2_scale, static_cast<Compute>(flat ? 0 : args.softmax_scale < 0 ? -1 : 1),
  };
}
