// Harmonic polynomials of vectors, degree after degree:
//
//   Y_0 = 1,  Y_l[m] = 1/l sum_{k, j} G_l[m, k, j] x[k] Y_(l-1)[j]
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "item_product_plan.h"
#include "primitives.h"

namespace mlpot {

struct HarmonicsPlan {
  int lmax;
  // For each degree from 1 on: Y_l[m] from the products x[k] Y_(l-1)[j], number k (2l-1) + j.
  std::vector<ItemTerms<float>> degrees_float;
  std::vector<ItemTerms<double>> degrees_double;

  // The tables G_1 / 1, G_2 / 2, ... one after the other, each (2l+1, 3, 2l-1).
  HarmonicsPlan(int lmax, const std::vector<double>& tables);

  template <class T>
  const std::vector<ItemTerms<T>>& degrees() const;
};

template <>
inline const std::vector<ItemTerms<float>>& HarmonicsPlan::degrees<float>() const {
  return degrees_float;
}
template <>
inline const std::vector<ItemTerms<double>>& HarmonicsPlan::degrees<double>() const {
  return degrees_double;
}

// x (n, 3) -> (n, (lmax + 1)^2).
class Harmonics : public Native {
 public:
  Harmonics(mx::Stream s, std::shared_ptr<const HarmonicsPlan> plan)
      : Native(s), plan_(std::move(plan)) {}

  const char* name() const override { return "MlpotHarmonics"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return static_cast<const Harmonics&>(other).plan_ == plan_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, inputs[0], stream())};
  }

  static mx::array make(const std::shared_ptr<const HarmonicsPlan>& plan, const mx::array& x,
                        mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const HarmonicsPlan> plan_;
};

}  // namespace mlpot
