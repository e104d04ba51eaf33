#include "change_primitive.h"

namespace mlpot {
namespace {

constexpr size_t kEdgeArrays = 5;
enum Role { kX, kY, kH, kTable, kOut, kRoles };

using Target = RadialConvolution::Target;
using Changed = RadialChanges::Changed;

bool is_input(Target target, int role) {
  return target == Target::y_h || !((target == Target::out && role == kOut) ||
                                    (target == Target::x && role == kX));
}
size_t number_of_arrays(Target target) { return target == Target::y_h ? kRoles : kRoles - 1; }

bool is_changed(const Changed& c, int role) {
  return (role == kX && c.x) || (role == kY && c.y) || (role == kH && c.h) ||
         (role == kOut && c.out);
}
size_t number_of(const Changed& c) { return size_t(c.x) + c.y + c.h + c.out; }

}  // namespace

std::vector<mx::array> RadialChanges::make(const std::shared_ptr<const Plan>& plan, Target target,
                                           Changed changed, TableSize size, int vectors,
                                           bool values,
                                           const std::vector<mx::array>& inputs, mx::Stream s) {
  require(target == Target::out || target == Target::x || target == Target::y_h,
          "changes are known of the maps out, x and y_h");
  require((target != Target::out || !changed.out) && (target != Target::x || !changed.x) &&
              number_of(changed) > 0,
          "a map changes with its arguments");
  const size_t n_arrays = number_of_arrays(target), n_floats = n_arrays + number_of(changed);
  const size_t index = n_floats;
  require(inputs.size() == index + kEdgeArrays || inputs.size() == index + kEdgeArrays + 1,
          "wrong number of arrays for changes of a convolution");
  const bool has_rows = inputs.size() > index + kEdgeArrays;
  require(size.n_coefficients >= 1 && size.n_coefficients <= size.n_rows &&
              (has_rows || size.n_coefficients == size.n_rows),
          "a table has the wrong number of rows");
  const mx::Dtype type = float_type(inputs[0]);
  const int n_edges = inputs[index].size(), n_nodes = inputs[index + 2].size() - 1;
  const mx::Shape shapes[kRoles] = {{n_nodes, plan->dim_x},
                                    {n_edges, plan->dim_y},
                                    {n_edges, size.n_coefficients},
                                    {size.n_rows, plan->n_weights},
                                    {n_nodes, plan->dim_out}};
  const auto of_all = [&](mx::Shape shape) {
    if (vectors > 0) shape.insert(shape.begin(), vectors);
    return shape;
  };
  size_t at = 0;
  for (int role = 0; role < kRoles; role++)
    if (is_input(target, role))
      require(inputs[at++].shape() == shapes[role],
              "an array of a convolution has the wrong shape");
  for (int role = 0; role < kRoles; role++)
    if (is_changed(changed, role))
      require(inputs[at++].shape() == of_all(shapes[role]),
              "a change of an array of a convolution has the wrong shape");
  for (size_t i = 0; i < n_floats; i++)
    require(inputs[i].dtype() == type, "the arrays of a convolution need one dtype");
  for (; at < inputs.size(); at++)
    require(inputs[at].dtype() == mx::int32 && inputs[at].ndim() == 1,
            "the edges of a convolution need to be int32");
  require(inputs[index + 1].size() == size_t(n_edges) &&
              inputs[index + 3].size() == size_t(n_edges) &&
              inputs[index + 4].size() == size_t(n_nodes) + 1 &&
              (!has_rows || inputs.back().size() == size_t(n_edges)),
          "the arrays of an edge list do not belong together");
  std::vector<mx::Shape> result;
  if (target == Target::y_h)
    result = {of_all(shapes[kY]), of_all(shapes[kH])};
  else
    result = {of_all(shapes[target == Target::x ? kX : kOut])};
  if (values && target == Target::y_h)
    result.insert(result.end(), {shapes[kY], shapes[kH]});
  else if (values)
    result.push_back(shapes[target == Target::x ? kX : kOut]);
  return mx::array::make_arrays(
      result, std::vector<mx::Dtype>(result.size(), type),
      std::make_shared<RadialChanges>(s, plan, target, changed, size, vectors, values), inputs);
}

std::pair<std::vector<mx::array>, std::vector<int>> RadialChanges::vmap(
    const std::vector<mx::array>& inputs, const std::vector<int>& axes) {
  const size_t begin = number_of_arrays(target_), end = begin + number_of(changed_);
  int vectors = 0;
  bool only_changes = vectors_ == 0 && !values_;
  for (size_t i = 0; i < inputs.size(); i++)
    if (axes[i] >= 0) {
      only_changes = only_changes && i >= begin && i < end;
      vectors = inputs[i].shape(axes[i]);
    }
  if (!only_changes || vectors == 0) return Native::vmap(inputs, axes);
  std::vector<mx::array> given = inputs;
  for (size_t i = begin; i < end; i++) {
    mx::Shape shape = inputs[i].shape();
    if (axes[i] < 0)
      shape.insert(shape.begin(), vectors);
    given[i] = axes[i] < 0 ? mx::broadcast_to(inputs[i], shape, stream())
                           : mx::moveaxis(inputs[i], axes[i], 0, stream());
  }
  auto outputs = make(plan_, target_, changed_, size_, vectors, false, given, stream());
  return {outputs, std::vector<int>(outputs.size(), 0)};
}

template <class T>
void RadialChanges::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const size_t index = number_of_arrays(target_) + number_of(changed_);
  const int64_t n_edges = inputs[index].size(), n_nodes = inputs[index + 2].size() - 1;
  enqueue<T>(
      inputs, outputs,
      [plan = plan_, target = target_, changed = changed_, size = size_, vectors = vectors_, index,
       n_edges, n_nodes](const std::vector<const void*>& in, const std::vector<T*>& out) {
        const auto edge_array = [&](size_t i) { return static_cast<const int32_t*>(in[index + i]); };
        const T *role[kRoles] = {}, *change[kRoles] = {};
        size_t at = 0;
        for (int r = 0; r < kRoles; r++)
          if (is_input(target, r)) role[r] = static_cast<const T*>(in[at++]);
        for (int r = 0; r < kRoles; r++)
          if (is_changed(changed, r)) change[r] = static_cast<const T*>(in[at++]);
        const Edges edges{n_nodes,       n_edges,       edge_array(0), edge_array(1),
                          edge_array(2), edge_array(3), edge_array(4)};
        const int32_t* rows = in.size() > index + kEdgeArrays ? edge_array(kEdgeArrays) : nullptr;
        check(edges);
        if (rows) check_rows(rows, n_edges, size.n_coefficients, size.n_rows);
        const RadialTable<T> table{role[kH],    role[kTable],    rows, size.n_coefficients,
                                   size.n_rows, plan->n_weights};
        const Changes<T> changes{change[kX], change[kY], change[kH], change[kOut],
                                 std::max(vectors, 1)};
        const auto result = [&](size_t i) { return i < out.size() ? out[i] : nullptr; };
        const T *x = role[kX], *y = role[kY], *g = role[kOut];
        if (target == Target::out)
          radial_changes_out<T>(*plan, edges, table, x, y, changes, out[0], result(1));
        else if (target == Target::x)
          radial_changes_x<T>(*plan, edges, table, y, g, changes, out[0], result(1));
        else
          radial_changes_edges<T>(*plan, edges, table, x, y, g, changes, out[0], out[1], result(2),
                                  result(3));
      });
}

bool RadialChanges::is_change_of(const RadialConvolution& map) const {
  return vectors_ == 0 && !values_ &&
         map.is_equivalent(
             RadialConvolution(mx::Stream(0, mx::Device::cpu), plan_, target_, size_));
}

std::pair<size_t, size_t> RadialChanges::counts() const {
  return {number_of_arrays(target_), number_of(changed_)};
}

void RadialChanges::eval_cpu(const std::vector<mx::array>& inputs,
                             std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
