// ---- The end of a tile. ---------------------------------------------------------------------------
// Lines 12 to 15: O_i = diag(l)^-1 O and LSE_i = m + ln(l). A row that saw no key has l = 0: zeros, and -inf.
// O goes through shared memory, so that a row is written 16 bytes at a time where its pointer allows.
__device__ __forceinline__ void write_rows(Tiles& tile, const Rows& rows, const Head& head, int64 row0,
                                           bool vectors) {
  const float c = head.scale * kLog2E;
#pragma unroll
  for (int i = 0; i < kMTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_id() * kRows + i * 16 + h * 8 + lane_id() / 4;
      const float l = group_sum(rows.l[i][h]), inverse = l == 0 ? 0 : 1 / l, m = rows.m[i][h], r = m * c;
#pragma unroll
      for (int n = 0; n < kChunksV; ++n)
        reinterpret_cast<unsigned*>(&chunk_at(tile.o, row, n))[lane_id() % 4] =
            pack(rows.o[i][n][2 * h] * inverse, rows.o[i][n][2 * h + 1] * inverse);
      if (head.lse != nullptr && lane_id() % 4 == 0 && row0 + row < head.seqlen_q)
        head.lse[row0 + row] = l == 0 ? -infinity() : log(l) + (fabsf(r) <= 4 * kSmall ? r * kLn2 : m * head.scale);
    }
  }
  __syncwarp();  // a warp's rows of O are whole

#pragma unroll 1
  for (int at = lane_id(); at < kRows * kChunksV; at += 32) {
    const int row = warp_id() * kRows + at / kChunksV, chunk = at % kChunksV;
    if (row0 + row >= head.seqlen_q) break;
    const uint4 x = chunk_at(tile.o, row, chunk);
    Element* out = head.out + (row0 + row) * head.out_row + chunk * kInChunk;
    if (vectors) {
      *reinterpret_cast<uint4*>(out) = x;
    } else {
      const unsigned words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int e = 0; e < kInChunk; ++e)
        if (chunk * kInChunk + e < kHeadDimV) out[e] = static_cast<Element>(words[e / 2] >> e % 2 * 16);
    }
  }
}
