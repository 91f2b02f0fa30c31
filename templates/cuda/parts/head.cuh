// ---- What a CTA works on: one (batch, head), with pointers moved to its first row. ----------------
struct Head {
  const Element *q, *k, *v;
  Element* out;
  Compute* lse;                        // null: not wanted
  int64 q_row, k_row, v_row, out_row;  // strides
  int64 seqlen_q, num_valid;
  Compute sign, scale;                 // the scale is without its sign, which goes into Q
};

// Tasks are counted by a grid, so they and the sizes that they are made of fit 32 bits; offsets do not.
__device__ __forceinline__ Head find_head(const AttentionArgs& args, unsigned task) {
  const unsigned num_heads = args.num_heads, num_heads_kv = args.num_heads_kv;
  const int64 b = task / num_heads, h = task % num_heads, h_kv = task % num_heads / (num_heads / num_heads_kv);
  const Compute scale = static_cast<Compute>(args.softmax_scale);
  return Head{
      static_cast<const Element*>(args.q) + b * args.q_stride[0] + h * args.q_stride[1],
      static_cast<const Element*>(args.k) + b * args.k_stride[0] + h_kv * args.k_stride[1],
      static_cast<const Element*>(args.v) + b * args.v_stride[0] + h_kv * args.v_stride[1],
      static_cast<Element*>(args.out) + b * args.out_stride[0] + h * args.out_stride[1],
      args.lse != nullptr ? static_cast<Compute*>(args.lse) + task * args.seqlen_q : nullptr,
      args.q_stride[2], args.k_stride[2], args.v_stride[2], args.out_stride[2],
      args.seqlen_q, valid_keys(args, b), scale < 0 ? Compute(-1) : Compute(1), fabs(scale)};
}

__device__ __forceinline__ int lane_id() { return threadIdx.x % 32; }
__device__ __forceinline__ int warp_id() { return threadIdx.x / 32; }
