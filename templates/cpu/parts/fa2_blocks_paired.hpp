// ---- Blocks of K are read where they lie; of V, each two rows are interleaved. --------------------
// A thread keeps the V of one head, for all the tiles of it that fall to this thread. A head that is met but
// once, or is too long to be kept, is interleaved a block at a time, over and over in the same place.
constexpr int64_t kPairs = ceil_div(kBc, kDepth);  // rows of factors in a block of V
constexpr int64_t kPairBytes = kPairs * kHeadDimV * sizeof(Factor);
constexpr size_t kBlockBytes = kBc * kHeadDim * sizeof(Element) + kPairBytes;

struct KvScratch {
  int64_t call;   // its number, so that nothing of an earlier call is taken for V
  int64_t slots;  // blocks that a thread has room for: all of a head, or 1
  size_t bytes;   // what a thread needs

  KvScratch(const AttentionArgs& args, const Tasks& tasks) {
    static int64_t num_calls = 0;
    call = __atomic_add_fetch(&num_calls, 1, __ATOMIC_RELAXED);
    const int64_t tiles = tasks.per_head * (args.num_heads / args.num_heads_kv);
    const int64_t blocks = ceil_div(args.seqlen_k, kBc);
    slots = tiles > 1 && blocks * kPairBytes <= kMostKeptBytes ? blocks : 1;
    bytes = static_cast<size_t>(slots * kPairBytes);
  }
};

// What lies in this thread's scratch: the first `rows` rows of V, of this call and head.
struct KeptV {
  int64_t call, head, rows;
};

thread_local KeptV kept_v;

// Beside the last of an odd number of rows: so no value gets near a row that may not see it.
constexpr Element kNoRow[kHeadDimV] = {};

// Line 7: load K_j, V_j.
inline KvBlock read_block(const KvScratch& scratch, const Head& head, int64_t key0, int64_t num_keys,
                          void* memory) {
  KeptV& kept = kept_v;
  if (kept.call != scratch.call || kept.head != head.kv_index || scratch.slots == 1)
    kept = {scratch.call, head.kv_index, 0};
  Factor* const pairs = static_cast<Factor*>(memory) + key0 / kBc % scratch.slots * kPairs * kHeadDimV;
  const Element* const v = head.v + key0 * head.v_stride;
  const int64_t end = key0 + num_keys;
  const bool is_kept = kept.rows >= end, is_odd = num_keys % kDepth != 0;
  for (int64_t j = is_kept ? num_keys - is_odd : 0; j < num_keys; j += kDepth) {
    const Element* const first = v + j * head.v_stride;
    const Element* const second = j + 1 < num_keys ? first + head.v_stride : kNoRow;
    Factor* const to = pairs + j / kDepth * kHeadDimV;
    for (int64_t x = 0; x < kHeadDimV; ++x) to[x] = first[x] | static_cast<Factor>(second[x]) << 16;
  }
  if (is_odd || !is_kept) kept.rows = end;
  return {head.k + key0 * head.k_stride, pairs, head.k_stride, kHeadDimV, num_keys};
}
