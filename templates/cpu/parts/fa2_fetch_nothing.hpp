// Widened a moment ago, the keys are in the cache.
inline void fetch_keys(const KvBlock&, int64_t, int64_t) {}
