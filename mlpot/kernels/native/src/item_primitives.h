// MLX primitives of products of items; values only, as in primitives.h.
#pragma once

#include "item_product_plan.h"
#include "primitives.h"

namespace mlpot {

// out (x, y, [w]); x (y, [w], g); y (x, [w], g); w (x, y, g); w (n_weights) if shared, else
// (n_items, n_weights); absent where the product has no weights.
class ItemProduct : public Native {
 public:
  ItemProduct(mx::Stream s, std::shared_ptr<const ItemPlan> plan, ItemMap map, bool shared)
      : Native(s), plan_(std::move(plan)), map_(map), shared_(shared) {}

  const char* name() const override { return "MlpotItemProduct"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const ItemProduct&>(other);
    return o.plan_ == plan_ && o.map_ == map_ && o.shared_ == shared_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(plan_, map_, shared_, inputs, stream())};
  }

  static mx::array make(const std::shared_ptr<const ItemPlan>& plan, ItemMap map, bool shared,
                        const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const ItemPlan> plan_;
  ItemMap map_;
  bool shared_;
};

}  // namespace mlpot
