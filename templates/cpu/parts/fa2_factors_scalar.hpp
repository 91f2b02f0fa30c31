// ---- Factors: what is broadcast and multiplied with vectors of queries. One scalar of K or V. ------
using KeyElement = Compute;
using Factor = Compute;
constexpr int64_t kDepth = 1;  // dims of K, or rows of V, in a factor

// The factor number `step` of a row of K.
inline Factor key_factor(const KeyElement* k, int64_t step) { return k[step]; }

inline Vec multiply_add(Factor factor, Vec queries, Vec sum) { return sum + factor * queries; }

// A row of Q^T or P^T as it meets such a factor.
inline Vec pack(const Vec& row, const Vec&) { return row; }
