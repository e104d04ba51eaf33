#include "direction_primitive.h"

namespace mlpot {

mx::array Directions::make(DirectionMap map, int order, const std::vector<mx::array>& inputs,
                           mx::Stream s) {
  const bool adjoint = map == DirectionMap::length_adjoint;
  require(order >= int(adjoint) && order <= kMostDirectionOrder,
          "directions have no map of this order");
  require(int(inputs.size()) == 1 + order, "wrong number of arrays for directions");
  const mx::Dtype type = float_type(inputs[0]);
  require(inputs[0].ndim() == 2, "vectors need two axes");
  const mx::Shape vectors{inputs[0].shape(0), 3}, numbers{inputs[0].shape(0)};
  for (size_t i = 0; i < inputs.size(); i++) {
    require(inputs[i].dtype() == type, "the arrays of directions need one dtype");
    require(inputs[i].shape() == (adjoint && i == 1 ? numbers : vectors),
            "an array of directions has the wrong shape");
  }
  return mx::array(map == DirectionMap::length ? numbers : vectors, type,
                   std::make_shared<Directions>(s, map, order), inputs);
}

template <class T>
void Directions::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = inputs[0].shape(0);
  enqueue<T>(inputs, outputs,
             [map = map_, order = order_, n](const std::vector<const void*>& in,
                                             const std::vector<T*>& out) {
               std::vector<const T*> arrays;
               for (const void* p : in) arrays.push_back(static_cast<const T*>(p));
               const bool adjoint = map == DirectionMap::length_adjoint;
               directions<T>(map, order, n, arrays[0], adjoint ? arrays[1] : nullptr,
                             arrays.data() + 1 + int(adjoint), out[0]);
             });
}

void Directions::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
