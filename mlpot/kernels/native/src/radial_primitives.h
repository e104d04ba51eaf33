// MLX primitives around the convolution with weights from a table, and around the weights alone.
#pragma once

#include "primitives.h"
#include "radial_convolution.h"

namespace mlpot {

// Sizes that the arrays of a map do not tell: the table is not an argument of its own adjoint.
struct TableSize {
  int n_coefficients, n_rows;
  bool operator==(const TableSize&) const = default;
};

// Gradients of T(x, y, h, table, out) to one role or to y and h. The inputs are the other roles in
// this order (all of them for y and h), the five index arrays of the edges, and rows if there are.
class RadialConvolution : public Native {
 public:
  enum class Target { out, x, y, h, table, y_h };

  RadialConvolution(mx::Stream s, std::shared_ptr<const Plan> plan, Target target, TableSize size)
      : Native(s), plan_(std::move(plan)), target_(target), size_(size) {}

  const char* name() const override { return "MlpotRadialConvolution"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const RadialConvolution&>(other);
    return o.plan_ == plan_ && o.target_ == target_ && o.size_ == size_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return make(plan_, target_, size_, inputs, stream());
  }

  static std::vector<mx::array> make(const std::shared_ptr<const Plan>& plan, Target target,
                                     TableSize size, const std::vector<mx::array>& inputs,
                                     mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const Plan> plan_;
  Target target_;
  TableSize size_;
};

// Gradients of <w, sum_m h[m] table[rows + m]> to one of h, table, w. The inputs are the other two
// in this order, and rows if there are.
class EdgeWeights : public Native {
 public:
  enum class Target { h, table, w };

  EdgeWeights(mx::Stream s, Target target, TableSize size)
      : Native(s), target_(target), size_(size) {}

  const char* name() const override { return "MlpotEdgeWeights"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const EdgeWeights&>(other);
    return o.target_ == target_ && o.size_ == size_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(target_, size_, inputs, stream())};
  }

  static mx::array make(Target target, TableSize size, const std::vector<mx::array>& inputs,
                        mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  Target target_;
  TableSize size_;
};

}  // namespace mlpot
