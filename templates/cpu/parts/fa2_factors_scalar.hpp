// ---- Factors: what is broadcast and multiplied with vectors of queries. One scalar of K or V. ------
using KeyElement = Compute;
using Factor = Compute;
constexpr int64_t kDepth = 1;         // dims of K, or rows of V, in a factor
constexpr int64_t kSteps = kHeadDim;  // factors in a row of K

// The factor number `step` of a row of K.
inline Factor key_factor(const KeyElement* k, int64_t step) { return k[step]; }

// kLanes factors of a row of Q from number `step` on; zeros past its end.
inline Vec load_factors(const Element* q, int64_t step) { return load_elements<kHeadDim>(q + step); }

inline Vec times(const Vec& factors, Compute number) { return factors * number; }

inline Vec multiply_add(Factor factor, Vec queries, Vec sum) { return sum + factor * queries; }

// Rows of P^T as they meet a factor of V.
inline Vec pack(const Vec& row, const Vec&) { return row; }
