// MLX primitive around gates.
#pragma once

#include "gate.h"
#include "primitives.h"

namespace mlpot {

// The inputs are x, for an adjoint g, and the directions.
class Gate : public Native {
 public:
  Gate(mx::Stream s, std::shared_ptr<const GatePlan> plan, bool adjoint, int order)
      : Native(s), plan_(std::move(plan)), adjoint_(adjoint), order_(order) {}

  const char* name() const override { return "MlpotGate"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const Gate&>(other);
    return o.plan_ == plan_ && o.adjoint_ == adjoint_ && o.order_ == order_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, adjoint_, order_, inputs, stream())};
  }

  static mx::array make(const std::shared_ptr<const GatePlan>& plan, bool adjoint, int order,
                        const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const GatePlan> plan_;
  bool adjoint_;
  int order_;
};

}  // namespace mlpot
