// MLX primitive around lengths and directions of vectors.
#pragma once

#include "directions.h"
#include "primitives.h"

namespace mlpot {

// The inputs are v, for length_adjoint g, and the directions.
class Directions : public Native {
 public:
  Directions(mx::Stream s, DirectionMap map, int order) : Native(s), map_(map), order_(order) {}

  const char* name() const override { return "MlpotDirections"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const Directions&>(other);
    return o.map_ == map_ && o.order_ == order_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(map_, order_, inputs, stream())};
  }

  static mx::array make(DirectionMap map, int order, const std::vector<mx::array>& inputs,
                        mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  DirectionMap map_;
  int order_;
};

}  // namespace mlpot
