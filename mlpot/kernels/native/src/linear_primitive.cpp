#include "linear_primitive.h"

namespace mlpot {
namespace {

constexpr int kRoles = 4;
using Target = BlockLinear::Target;

// Which input a role is, or -1.
struct Places {
  int of[kRoles];
  int size = 0;

  Places(const LinearPlan& plan, Target target) {
    for (int role = 0; role < kRoles; role++) {
      const bool given = Target(role) != target && (plan.dim_y > 0 || Target(role) != Target::y);
      of[role] = given ? size++ : -1;
    }
  }
  int operator[](Target role) const { return of[int(role)]; }
};

}  // namespace

mx::array BlockLinear::make(const std::shared_ptr<const LinearPlan>& plan, Target target,
                            const std::vector<mx::array>& inputs, mx::Stream s) {
  const Places places(*plan, target);
  require(int(inputs.size()) == places.size, "wrong number of arrays for a linear map");
  require(target != Target::y || plan->dim_y > 0, "a linear map without y has no adjoint to it");
  const mx::Dtype type = float_type(inputs[0]);
  const mx::array& of_nodes = inputs[target == Target::x ? places[Target::out] : places[Target::x]];
  require(of_nodes.ndim() == 2, "a linear map needs arrays of two axes");
  const int n = of_nodes.shape(0);
  const mx::Shape shapes[kRoles] = {
      {n, plan->dim_x}, {n, plan->dim_y}, {plan->n_weights}, {n, plan->dim_out}};
  for (int role = 0; role < kRoles; role++)
    if (places.of[role] >= 0) {
      const mx::array& a = inputs[places.of[role]];
      require(a.dtype() == type, "the arrays of a linear map need one dtype");
      require(a.shape() == shapes[role], "an array of a linear map has the wrong shape");
    }
  return mx::array(shapes[int(target)], type, std::make_shared<BlockLinear>(s, plan, target),
                   inputs);
}

template <class T>
void BlockLinear::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const Places places(*plan_, target_);
  const int64_t n = inputs[places[target_ == Target::x ? Target::out : Target::x]].shape(0);
  enqueue<T>(inputs, outputs,
             [plan = plan_, target = target_, places, n](const std::vector<const void*>& in,
                                                         const std::vector<T*>& out) {
               const auto array = [&](Target role) {
                 return places[role] < 0 ? nullptr : static_cast<const T*>(in[places[role]]);
               };
               const T *x = array(Target::x), *y = array(Target::y), *w = array(Target::w),
                       *g = array(Target::out);
               switch (target) {
                 case Target::out:
                   return linear_out<T>(*plan, n, x, y, w, out[0]);
                 case Target::x:
                   return linear_x<T>(*plan, n, y, w, g, out[0]);
                 case Target::y:
                   return linear_y<T>(*plan, n, x, w, g, out[0]);
                 case Target::w:
                   return linear_w<T>(*plan, n, x, y, g, out[0]);
               }
             });
}

void BlockLinear::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
