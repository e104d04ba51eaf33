// MLX primitive around the changes of convolutions with weights from a table.
#pragma once

#include "radial_changes.h"
#include "radial_primitives.h"

namespace mlpot {

// The inputs are the roles x, y, h, table, out that the target is a function of (all of them for y
// and h), then the changes of those of x, y, h, out that `changed` names, then the index arrays as
// in RadialConvolution. With vectors > 0 changes and results have a first axis of this size. With
// values the results of the map itself follow (see share_passes).
class RadialChanges : public Native {
 public:
  using Target = RadialConvolution::Target;
  struct Changed {
    bool x, y, h, out;
    bool operator==(const Changed&) const = default;
  };

  RadialChanges(mx::Stream s, std::shared_ptr<const Plan> plan, Target target, Changed changed,
                TableSize size, int vectors, bool values)
      : Native(s),
        plan_(std::move(plan)),
        target_(target),
        changed_(changed),
        size_(size),
        vectors_(vectors),
        values_(values) {}

  const char* name() const override { return "MlpotRadialChanges"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const RadialChanges&>(other);
    return o.plan_ == plan_ && o.target_ == target_ && o.changed_ == changed_ &&
           o.size_ == size_ && o.vectors_ == vectors_ && o.values_ == values_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return make(plan_, target_, changed_, size_, vectors_, values_, inputs, stream());
  }
  // Changes along many vectors at once share what does not change.
  std::pair<std::vector<mx::array>, std::vector<int>> vmap(const std::vector<mx::array>& inputs,
                                                           const std::vector<int>& axes) override;

  static std::vector<mx::array> make(const std::shared_ptr<const Plan>& plan, Target target,
                                     Changed changed, TableSize size, int vectors, bool values,
                                     const std::vector<mx::array>& inputs, mx::Stream s);
  // Whether this is the change of that map, for one vector; the arrays are to be compared besides.
  bool is_change_of(const RadialConvolution& map) const;
  // How many of the inputs are arrays of the map, and how many changes follow.
  std::pair<size_t, size_t> counts() const;
  // This with the values of the map.
  std::vector<mx::array> with_values(const std::vector<mx::array>& inputs) {
    return make(plan_, target_, changed_, size_, vectors_, true, inputs, stream());
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const Plan> plan_;
  Target target_;
  Changed changed_;
  TableSize size_;
  int vectors_;
  bool values_;
};

// Where the graph behind `outputs` holds a map and its change for the same arrays, as a forward
// derivative has them, one pass is made to compute both. The graph is changed: nothing else may
// hold arrays of it. Returns how many there were; `outputs` may become others.
int share_passes(std::vector<mx::array>& outputs);

}  // namespace mlpot
