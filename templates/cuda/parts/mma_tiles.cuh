// ---- On-chip memory of one CTA, in dynamic shared memory. -----------------------------------------
union Tiles {
  struct {
    uint4 q[kBr][kChunks], k[kBc][kChunks], v[kBc][kChunksV];
  };
  uint4 o[kBr][kChunksV];  // at the end
};
