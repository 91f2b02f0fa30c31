// ---- Calling convention: every flashgen CUDA kernel takes this struct by value. ------------------
// Strides count elements, may be zero or negative, and the last axis of every tensor is contiguous.
using int64 = long long;  // no header is included, so that any NVRTC or nvcc compiles the file as it is

struct AttentionArgs {
  const void* q;           // (batch, num_heads,    seqlen_q, kHeadDim)
  const void* k;           // (batch, num_heads_kv, seqlen_k, kHeadDim)
  const void* v;           // (batch, num_heads_kv, seqlen_k, kHeadDimV)
  void* out;               // (batch, num_heads,    seqlen_q, kHeadDimV), written in full
  void* lse;               // (batch, num_heads, seqlen_q) of Compute, contiguous; null: not wanted
  const int64* seqlens_k;  // (batch,) valid keys of each entry; null: all seqlen_k
  int64 batch, num_heads, num_heads_kv, seqlen_q, seqlen_k;
  int64 q_stride[3], k_stride[3], v_stride[3], out_stride[3];  // of batch, head, row
  double softmax_scale;
  void* workspace;         // device memory of the kernel's own, 256-byte aligned; see the manifest
  int64 row_ranges;        // CTAs that share the query rows of one (batch, head)
};
