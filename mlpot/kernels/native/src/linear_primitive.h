// MLX primitive around the linear maps between blocks.
#pragma once

#include "block_linear.h"
#include "primitives.h"

namespace mlpot {

// Gradients of T = <out, linear map of x, y, w> to one role. The inputs are the other roles, in the
// order x, y, w, out; y is left out where the plan has none.
class BlockLinear : public Native {
 public:
  enum class Target { x, y, w, out };

  BlockLinear(mx::Stream s, std::shared_ptr<const LinearPlan> plan, Target target)
      : Native(s), plan_(std::move(plan)), target_(target) {}

  const char* name() const override { return "MlpotBlockLinear"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const BlockLinear&>(other);
    return o.plan_ == plan_ && o.target_ == target_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, target_, inputs, stream())};
  }

  static mx::array make(const std::shared_ptr<const LinearPlan>& plan, Target target,
                        const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const LinearPlan> plan_;
  Target target_;
};

}  // namespace mlpot
