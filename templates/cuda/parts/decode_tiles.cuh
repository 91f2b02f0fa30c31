// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
struct KvBlock {
  uint4 k[kBc][kChunks], v[kBc][kChunksV];
};

// What a warp found, for the others to join. Eight banks from row to row: no two of a store collide.
constexpr int kColumns = kChunksV * kInChunk, kJoinStride = kColumns + (40 - kColumns % 32) % 32;
struct WarpRows {
  float o[kBr][kJoinStride], l[kBr], m[kBr];
};

union Tiles {
  struct {
    uint4 q[kBr][kChunks];
    KvBlock block[kStages];
  };
  WarpRows warp[kWarps];  // at the end
};
