// MLX primitives around intervals of distances.
#pragma once

#include "interval_powers.h"
#include "primitives.h"

namespace mlpot {

// r (n), kinds (n) if given -> rows (n) int32.
class Locate : public Native {
 public:
  Locate(mx::Stream s, std::shared_ptr<const IntervalPlan> plan)
      : Native(s), plan_(std::move(plan)) {}

  const char* name() const override { return "MlpotLocate"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return static_cast<const Locate&>(other).plan_ == plan_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, inputs, stream())};
  }

  static mx::array make(const std::shared_ptr<const IntervalPlan>& plan,
                        const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  std::shared_ptr<const IntervalPlan> plan_;
};

// r (n), for an adjoint g (n, 6), directions (n), rows (n) -> (n, 6), or (n) for an adjoint.
class IntervalPowers : public Native {
 public:
  IntervalPowers(mx::Stream s, std::shared_ptr<const IntervalPlan> plan, bool adjoint, int order)
      : Native(s), plan_(std::move(plan)), adjoint_(adjoint), order_(order) {}

  const char* name() const override { return "MlpotIntervalPowers"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const IntervalPowers&>(other);
    return o.plan_ == plan_ && o.adjoint_ == adjoint_ && o.order_ == order_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, adjoint_, order_, inputs, stream())};
  }

  static mx::array make(const std::shared_ptr<const IntervalPlan>& plan, bool adjoint, int order,
                        const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const IntervalPlan> plan_;
  bool adjoint_;
  int order_;
};

}  // namespace mlpot
