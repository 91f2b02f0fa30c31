// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
struct KvBlock {
  uint4 k[kBc][kChunks], v[kBc][kChunksV];
};

union Tiles {
  uint4 q[kBr][kChunks];  // at the beginning, until each warp has its rows in registers
  KvBlock block[kStages];
  uint4 o[kBr][kChunksV];  // at the end
};
