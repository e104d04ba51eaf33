#include "interval_primitive.h"

namespace mlpot {

mx::array Locate::make(const std::shared_ptr<const IntervalPlan>& plan,
                       const std::vector<mx::array>& inputs, mx::Stream s) {
  require(inputs.size() == 1 || inputs.size() == 2, "locate takes distances and perhaps kinds");
  float_type(inputs[0]);
  require(inputs[0].ndim() == 1, "distances need one axis");
  if (inputs.size() == 2)
    require(inputs[1].dtype() == mx::int32 && inputs[1].shape() == inputs[0].shape(),
            "kinds need one int32 for each distance");
  return mx::array(inputs[0].shape(), mx::int32, std::make_shared<Locate>(s, plan), inputs);
}

void Locate::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = inputs[0].size();
  const bool single = inputs[0].dtype() == mx::float32;
  enqueue<int32_t>(inputs, outputs,
                   [plan = plan_, n, single](const std::vector<const void*>& in,
                                             const std::vector<int32_t*>& out) {
                     const auto* kinds = in.size() > 1 ? static_cast<const int32_t*>(in[1]) : nullptr;
                     if (single)
                       locate<float>(*plan, n, static_cast<const float*>(in[0]), kinds, out[0]);
                     else
                       locate<double>(*plan, n, static_cast<const double*>(in[0]), kinds, out[0]);
                   });
}

mx::array IntervalPowers::make(const std::shared_ptr<const IntervalPlan>& plan, bool adjoint,
                               int order, const std::vector<mx::array>& inputs, mx::Stream s) {
  require(order >= int(adjoint) && order <= kMostIntervalOrder,
          "interval powers have no map of this order");
  require(int(inputs.size()) == 2 + order, "wrong number of arrays for interval powers");
  const mx::Dtype type = float_type(inputs[0]);
  require(inputs[0].ndim() == 1, "distances need one axis");
  const mx::Shape one = inputs[0].shape(), six{inputs[0].shape(0), kPowers};
  for (size_t i = 0; i + 1 < inputs.size(); i++) {
    require(inputs[i].dtype() == type, "the arrays of interval powers need one dtype");
    require(inputs[i].shape() == (adjoint && i == 1 ? six : one),
            "an array of interval powers has the wrong shape");
  }
  require(inputs.back().dtype() == mx::int32 && inputs.back().shape() == one,
          "rows need one int32 for each distance");
  return mx::array(adjoint ? one : six, type,
                   std::make_shared<IntervalPowers>(s, plan, adjoint, order), inputs);
}

template <class T>
void IntervalPowers::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = inputs[0].size();
  enqueue<T>(inputs, outputs,
             [plan = plan_, adjoint = adjoint_, order = order_, n](
                 const std::vector<const void*>& in, const std::vector<T*>& out) {
               std::vector<const T*> arrays;
               for (size_t i = 0; i + 1 < in.size(); i++)
                 arrays.push_back(static_cast<const T*>(in[i]));
               const auto* rows = static_cast<const int32_t*>(in.back());
               if (adjoint)
                 interval_adjoint<T>(*plan, order, n, arrays[0], arrays[1], arrays.data() + 2, rows,
                                     out[0]);
               else
                 interval_out<T>(*plan, order, n, arrays[0], arrays.data() + 1, rows, out[0]);
             });
}

void IntervalPowers::eval_cpu(const std::vector<mx::array>& inputs,
                              std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
