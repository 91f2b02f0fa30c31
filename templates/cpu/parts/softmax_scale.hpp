// ---- Scale: S stays unscaled until the maximum is subtracted. --------------------------------------
// e^(scale s - scale m) is computed as e^(scale (s - m)): the difference of two large logits is exact,
// and a logit may exceed the range of Compute as long as q.k does not. A negative scale turns the order
// of the logits round, so S is stored with the scale's sign and only the magnitude is left for later.
struct Scale {
  Compute sign, magnitude;

  explicit Scale(double scale)
      : sign(scale < 0 ? -1 : 1), magnitude(static_cast<Compute>(scale < 0 ? -scale : scale)) {}

  // e^(magnitude (s - reference)), where the reference is a maximum, so the result is at most 1. At -inf
  // there is nothing to weigh (no key was seen yet), and (-inf) - (-inf) and 0 * inf must not happen: the
  // weight is 0. A NaN stays a NaN, so that it shows in its row.
  Compute exp_below(Compute s, Compute reference) const {
    if (s == -kInfinity || reference == -kInfinity) return std::isnan(s) ? s : Compute(0);
    return std::exp(magnitude * (s - reference));
  }

  // Natural log of the sum of e^(scaled logit): its maximum is `row_max`, the shifted sum is `row_sum`.
  Compute log_sum_exp(Compute row_max, Compute row_sum) const {
    return row_sum == 0 ? -kInfinity : magnitude * row_max + std::log(row_sum);
  }
};
