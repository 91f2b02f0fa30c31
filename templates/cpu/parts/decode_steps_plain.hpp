// ---- Steps through a row: one vector of consecutive elements each. --------------------------------
constexpr int64_t kStepVecs = 1;

inline void load_step(const Element* from, Vec (&x)[kStepVecs]) { x[0] = widen(from); }

inline void store_step(const Vec (&x)[kStepVecs], Element* to) { narrow(x[0], to); }
