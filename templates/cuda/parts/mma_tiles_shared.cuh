// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
struct KvBlock {
  uint4 k[kBc][kChunks], v[kBc][kChunksV];
};

union Tiles {
  struct {
    uint4 q[kBr][kChunks];
    KvBlock block[kStages];
  };
  uint4 o[kBr][kChunksV];  // at the end
};
