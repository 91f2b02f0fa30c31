// ---- Calling convention: every flashgen CPU kernel takes one pointer to this struct. -------------
// Strides count elements, may be zero or negative, and the last axis of every tensor is contiguous.
// GompParallel is the signature of libgomp's GOMP_parallel; any thread pool can stand in for it.
using GompParallel = void (*)(void (*body)(void*), void* data, unsigned num_threads, unsigned flags);

struct AttentionArgs {
  int64_t abi_version;       // kAbiVersion
  const void* q;             // (batch, num_heads,    seqlen_q, kHeadDim)
  const void* k;             // (batch, num_heads_kv, seqlen_k, kHeadDim)
  const void* v;             // (batch, num_heads_kv, seqlen_k, kHeadDimV)
  void* out;                 // (batch, num_heads,    seqlen_q, kHeadDimV), written in full
  void* lse;                 // (batch, num_heads, seqlen_q) of Compute, contiguous; null: not wanted
  const int64_t* seqlens_k;  // (batch,) valid keys of each entry; null: all seqlen_k
  int64_t batch, num_heads, num_heads_kv, seqlen_q, seqlen_k;
  int64_t q_stride[3], k_stride[3], v_stride[3], out_stride[3];  // of batch, head, row
  double softmax_scale;
  int64_t max_threads;       // at most so many threads; results do not depend on it
  GompParallel parallel;     // null: this thread does all the work
};

constexpr int64_t kAbiVersion = 1;
enum Status : int64_t { kOk = 0, kWrongAbi = 1, kOutOfMemory = 2 };
