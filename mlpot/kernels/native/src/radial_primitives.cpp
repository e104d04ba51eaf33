#include "radial_primitives.h"

namespace mlpot {
namespace {

constexpr size_t kEdgeArrays = 5;
enum Role { kX, kY, kH, kTable, kOut, kRoles };

using Target = RadialConvolution::Target;

bool is_input(Target target, int role) {
  switch (target) {
    case Target::x:
      return role != kX;
    case Target::y:
      return role != kY;
    case Target::h:
      return role != kH;
    case Target::table:
      return role != kTable;
    case Target::out:
      return role != kOut;
    case Target::y_h:
      return true;
  }
  return false;
}

size_t number_of_arrays(Target target) { return target == Target::y_h ? kRoles : kRoles - 1; }

}  // namespace

std::vector<mx::array> RadialConvolution::make(const std::shared_ptr<const Plan>& plan,
                                               Target target, TableSize size,
                                               const std::vector<mx::array>& inputs,
                                               mx::Stream s) {
  const size_t n_arrays = number_of_arrays(target);
  require(inputs.size() == n_arrays + kEdgeArrays || inputs.size() == n_arrays + kEdgeArrays + 1,
          "wrong number of arrays for a convolution with a table");
  const bool has_rows = inputs.size() > n_arrays + kEdgeArrays;
  require(size.n_coefficients >= 1 && size.n_coefficients <= size.n_rows &&
              (has_rows || size.n_coefficients == size.n_rows),
          "a table has the wrong number of rows");
  const mx::Dtype type = float_type(inputs[0]);
  const int n_edges = inputs[n_arrays].size(), n_nodes = inputs[n_arrays + 2].size() - 1;
  const mx::Shape shapes[kRoles] = {{n_nodes, plan->dim_x},
                                    {n_edges, plan->dim_y},
                                    {n_edges, size.n_coefficients},
                                    {size.n_rows, plan->n_weights},
                                    {n_nodes, plan->dim_out}};
  size_t at = 0;
  for (int role = 0; role < kRoles; role++)
    if (is_input(target, role)) {
      require(inputs[at].dtype() == type, "the arrays of a convolution need one dtype");
      require(inputs[at].shape() == shapes[role], "an array of a convolution has the wrong shape");
      at++;
    }
  for (; at < inputs.size(); at++)
    require(inputs[at].dtype() == mx::int32 && inputs[at].ndim() == 1,
            "the edges of a convolution need to be int32");
  require(inputs[n_arrays + 1].size() == size_t(n_edges) &&
              inputs[n_arrays + 3].size() == size_t(n_edges) &&
              inputs[n_arrays + 4].size() == size_t(n_nodes) + 1 &&
              (!has_rows || inputs.back().size() == size_t(n_edges)),
          "the arrays of an edge list do not belong together");
  std::vector<mx::Shape> result;
  for (int role = 0; role < kRoles; role++)
    if (!is_input(target, role)) result.push_back(shapes[role]);
  if (target == Target::y_h) result = {shapes[kY], shapes[kH]};
  return mx::array::make_arrays(result, std::vector<mx::Dtype>(result.size(), type),
                                std::make_shared<RadialConvolution>(s, plan, target, size), inputs);
}

template <class T>
void RadialConvolution::eval(const std::vector<mx::array>& inputs,
                             std::vector<mx::array>& outputs) {
  const size_t n_arrays = number_of_arrays(target_);
  const int64_t n_edges = inputs[n_arrays].size(), n_nodes = inputs[n_arrays + 2].size() - 1;
  enqueue<T>(
      inputs, outputs,
      [plan = plan_, target = target_, size = size_, n_arrays, n_edges, n_nodes](
          const std::vector<const void*>& in, const std::vector<T*>& out) {
        const auto index = [&](size_t i) { return static_cast<const int32_t*>(in[n_arrays + i]); };
        const T* role[kRoles] = {};
        for (int r = 0, at = 0; r < kRoles; r++)
          if (is_input(target, r)) role[r] = static_cast<const T*>(in[at++]);
        const Edges edges{n_nodes, n_edges, index(0), index(1), index(2), index(3), index(4)};
        const int32_t* rows = in.size() > n_arrays + kEdgeArrays ? index(kEdgeArrays) : nullptr;
        check(edges);
        if (rows) check_rows(rows, n_edges, size.n_coefficients, size.n_rows);
        const RadialTable<T> table{role[kH],    role[kTable],    rows, size.n_coefficients,
                                   size.n_rows, plan->n_weights};
        const T *x = role[kX], *y = role[kY], *g = role[kOut];
        T* none = nullptr;
        switch (target) {
          case Target::out:
            return radial_convolve<T>(*plan, edges, table, x, y, out[0]);
          case Target::x:
            return radial_convolve_x<T>(*plan, edges, table, y, g, out[0]);
          case Target::y:
            return radial_convolve_edges<T>(*plan, edges, table, x, y, g, out[0], none);
          case Target::h:
            return radial_convolve_edges<T>(*plan, edges, table, x, y, g, none, out[0]);
          case Target::y_h:
            return radial_convolve_edges<T>(*plan, edges, table, x, y, g, out[0], out[1]);
          case Target::table:
            return radial_convolve_table<T>(*plan, edges, table, x, y, g, out[0]);
        }
      });
}

void RadialConvolution::eval_cpu(const std::vector<mx::array>& inputs,
                                 std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

mx::array EdgeWeights::make(Target target, TableSize size, const std::vector<mx::array>& inputs,
                            mx::Stream s) {
  require(inputs.size() == 2 || inputs.size() == 3, "wrong number of arrays for edge weights");
  const bool has_rows = inputs.size() == 3;
  require(size.n_coefficients >= 1 && size.n_coefficients <= size.n_rows &&
              (has_rows || size.n_coefficients == size.n_rows),
          "a table has the wrong number of rows");
  const mx::Dtype type = float_type(inputs[0]);
  require(inputs[1].dtype() == type, "the arrays of edge weights need one dtype");
  require(inputs[0].ndim() == 2 && inputs[1].ndim() == 2, "edge weights need arrays of two axes");
  const bool to_h = target == Target::h;
  const int n_edges = inputs[to_h ? 1 : 0].shape(0), n_weights = inputs[1].shape(1);
  const mx::Shape h{n_edges, size.n_coefficients}, table{size.n_rows, n_weights},
      w{n_edges, n_weights};
  require(inputs[0].shape() == (to_h ? table : h) &&
              inputs[1].shape() == (target == Target::w ? table : w),
          "an array of edge weights has the wrong shape");
  if (has_rows)
    require(inputs[2].dtype() == mx::int32 && inputs[2].ndim() == 1 &&
                inputs[2].size() == size_t(n_edges),
            "the rows of edge weights need one int32 for each edge");
  return mx::array(to_h                        ? h
                   : target == Target::table ? table
                                               : w,
                   type, std::make_shared<EdgeWeights>(s, target, size), inputs);
}

template <class T>
void EdgeWeights::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const bool to_h = target_ == Target::h;
  const int64_t n_edges = inputs[to_h ? 1 : 0].shape(0), n_weights = inputs[1].shape(1);
  enqueue<T>(inputs, outputs,
             [target = target_, size = size_, n_edges, n_weights](
                 const std::vector<const void*>& in, const std::vector<T*>& out) {
               const T *first = static_cast<const T*>(in[0]), *second = static_cast<const T*>(in[1]);
               const int32_t* rows = in.size() > 2 ? static_cast<const int32_t*>(in[2]) : nullptr;
               if (rows) check_rows(rows, n_edges, size.n_coefficients, size.n_rows);
               RadialTable<T> table{first, second, rows, size.n_coefficients, size.n_rows,
                                    n_weights};
               switch (target) {
                 case Target::w:
                   return edge_weights<T>(table, n_edges, out[0]);
                 case Target::h:
                   table.table = first;
                   return edge_weights_h<T>(table, n_edges, second, out[0]);
                 case Target::table:
                   return edge_weights_table<T>(table, n_edges, second, out[0]);
               }
             });
}

void EdgeWeights::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
