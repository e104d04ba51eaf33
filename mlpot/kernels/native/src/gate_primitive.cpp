#include "gate_primitive.h"

namespace mlpot {

mx::array Gate::make(const std::shared_ptr<const GatePlan>& plan, bool adjoint, int order,
                     const std::vector<mx::array>& inputs, mx::Stream s) {
  require(order >= int(adjoint) && order <= kMostGateOrder, "no gate has a map of this order");
  require(int(inputs.size()) == 1 + order, "wrong number of arrays for a gate");
  const mx::Dtype type = float_type(inputs[0]);
  require(inputs[0].ndim() == 2, "a gate needs arrays of two axes");
  const mx::Shape in{inputs[0].shape(0), plan->dim_x}, out{inputs[0].shape(0), plan->dim_out};
  for (size_t i = 0; i < inputs.size(); i++) {
    require(inputs[i].dtype() == type, "the arrays of a gate need one dtype");
    require(inputs[i].shape() == (adjoint && i == 1 ? out : in),
            "an array of a gate has the wrong shape");
  }
  return mx::array(adjoint ? in : out, type, std::make_shared<Gate>(s, plan, adjoint, order),
                   inputs);
}

template <class T>
void Gate::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = inputs[0].shape(0);
  enqueue<T>(inputs, outputs,
             [plan = plan_, adjoint = adjoint_, order = order_, n](
                 const std::vector<const void*>& in, const std::vector<T*>& out) {
               std::vector<const T*> arrays;
               for (const void* p : in) arrays.push_back(static_cast<const T*>(p));
               if (adjoint)
                 gate_adjoint<T>(*plan, order, n, arrays[0], arrays[1], arrays.data() + 2, out[0]);
               else
                 gate_out<T>(*plan, order, n, arrays[0], arrays.data() + 1, out[0]);
             });
}

void Gate::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
