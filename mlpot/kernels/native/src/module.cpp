// The Python module: plain functions on mx.array, made to share MLX's own array type (nanobind
// domain "mlx").
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "change_primitive.h"
#include "item_module.h"
#include "linear_primitive.h"
#include "primitives.h"
#include "radial_primitives.h"
#include "row_module.h"
#include "threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mlpot::Convolution;
using mlpot::cpu_stream;
namespace mx = mlx::core;

Convolution::Map map_named(const std::string& name) {
  if (name == "conv") return Convolution::Map::conv;
  if (name == "conv_x") return Convolution::Map::x;
  if (name == "conv_y") return Convolution::Map::y;
  if (name == "conv_w") return Convolution::Map::w;
  if (name == "conv_yw") return Convolution::Map::yw;
  throw std::invalid_argument("no map of a convolution is named " + name);
}

mlpot::RadialConvolution::Target target_named(const std::string& name) {
  using Target = mlpot::RadialConvolution::Target;
  const std::pair<const char*, Target> all[] = {{"out", Target::out}, {"x", Target::x},
                                                {"y", Target::y},     {"h", Target::h},
                                                {"y_h", Target::y_h}, {"table", Target::table}};
  for (const auto& [key, value] : all)
    if (name == key) return value;
  throw std::invalid_argument("no map of a convolution with a table is named " + name);
}

mlpot::RadialChanges::Changed changes_named(const std::vector<std::string>& names) {
  mlpot::RadialChanges::Changed changed{};
  for (const std::string& name : names) {
    if (name == "x")
      changed.x = true;
    else if (name == "y")
      changed.y = true;
    else if (name == "h")
      changed.h = true;
    else if (name == "out")
      changed.out = true;
    else
      throw std::invalid_argument("changes are not known of " + name);
  }
  return changed;
}

mlpot::BlockLinear::Target linear_target_named(const std::string& name) {
  using Target = mlpot::BlockLinear::Target;
  if (name == "x") return Target::x;
  if (name == "y") return Target::y;
  if (name == "w") return Target::w;
  if (name == "out") return Target::out;
  throw std::invalid_argument("no map of block_linear is named " + name);
}

mlpot::EdgeWeights::Target weights_target_named(const std::string& name) {
  using Target = mlpot::EdgeWeights::Target;
  if (name == "w") return Target::w;
  if (name == "h") return Target::h;
  if (name == "table") return Target::table;
  throw std::invalid_argument("no map of edge weights is named " + name);
}

mlpot::Function function_named(const std::string& name) {
  using mlpot::Function;
  const std::pair<const char*, Function> all[] = {
      {"exp", Function::exp},     {"sin", Function::sin},         {"cos", Function::cos},
      {"tanh", Function::tanh},   {"sigmoid", Function::sigmoid}, {"silu", Function::silu0},
      {"silu1", Function::silu1}, {"silu2", Function::silu2},     {"silu3", Function::silu3}};
  for (const auto& [key, value] : all)
    if (name == key) return value;
  throw std::invalid_argument("no function is named " + name);
}

}  // namespace

NB_MODULE(_mlpot_native, m) {
  // Plans live in caches of models that may exist until the interpreter ends.
  nb::set_leak_warnings(false);
  nb::class_<mlpot::Plan>(m, "Plan")
      .def(nb::init<int, int, int, int, const std::vector<int>&, const std::vector<double>&>(),
           "dim_x"_a, "dim_y"_a, "n_weights"_a, "dim_out"_a, "paths"_a, "coefficients"_a);
  m.def(
      "convolution",
      [](std::shared_ptr<mlpot::Plan> plan, const std::string& map,
         const std::vector<mx::array>& arrays, mx::StreamOrDevice s) {
        return Convolution::make(plan, map_named(map), arrays, cpu_stream(s));
      },
      "plan"_a, "map"_a, "arrays"_a, "stream"_a = nb::none());
  m.def(
      "radial_convolution",
      [](std::shared_ptr<mlpot::Plan> plan, const std::string& target,
         const std::vector<mx::array>& arrays, int n_coefficients, int n_rows,
         mx::StreamOrDevice s) {
        return mlpot::RadialConvolution::make(plan, target_named(target),
                                              {n_coefficients, n_rows}, arrays, cpu_stream(s));
      },
      "plan"_a, "target"_a, "arrays"_a, "n_coefficients"_a, "n_rows"_a, "stream"_a = nb::none());
  m.def(
      "radial_changes",
      [](std::shared_ptr<mlpot::Plan> plan, const std::string& target,
         const std::vector<std::string>& changed, const std::vector<mx::array>& arrays,
         int n_coefficients, int n_rows, mx::StreamOrDevice s) {
        return mlpot::RadialChanges::make(plan, target_named(target), changes_named(changed),
                                          {n_coefficients, n_rows}, 0, false, arrays,
                                          cpu_stream(s));
      },
      "plan"_a, "target"_a, "changed"_a, "arrays"_a, "n_coefficients"_a, "n_rows"_a,
      "stream"_a = nb::none());
  m.def(
      "share_passes",
      [](std::vector<mx::array> outputs) {
        const int n = mlpot::share_passes(outputs);
        return std::make_pair(outputs, n);
      },
      "outputs"_a);
  m.def(
      "edge_weights",
      [](const std::string& target, const std::vector<mx::array>& arrays, int n_coefficients,
         int n_rows, mx::StreamOrDevice s) {
        return mlpot::EdgeWeights::make(weights_target_named(target), {n_coefficients, n_rows},
                                        arrays, cpu_stream(s));
      },
      "target"_a, "arrays"_a, "n_coefficients"_a, "n_rows"_a, "stream"_a = nb::none());
  nb::class_<mlpot::LinearPlan>(m, "LinearPlan")
      .def(nb::init<int, int, int, int, const std::vector<int>&, const std::vector<double>&>(),
           "dim_x"_a, "dim_y"_a, "n_weights"_a, "dim_out"_a, "paths"_a, "factors"_a);
  m.def(
      "block_linear",
      [](std::shared_ptr<mlpot::LinearPlan> plan, const std::string& target,
         const std::vector<mx::array>& arrays, mx::StreamOrDevice s) {
        return mlpot::BlockLinear::make(plan, linear_target_named(target), arrays, cpu_stream(s));
      },
      "plan"_a, "target"_a, "arrays"_a, "stream"_a = nb::none());
  m.def(
      "gather",
      [](const mx::array& x, const mx::array& index, mx::StreamOrDevice s) {
        return mlpot::Rows::make(true, 0, {x, index}, cpu_stream(s))[0];
      },
      "x"_a, "index"_a, "stream"_a = nb::none());
  m.def(
      "segment_sum",
      [](const mx::array& x, const mx::array& index, int n_segments, mx::StreamOrDevice s) {
        return mlpot::Rows::make(false, n_segments, {x, index}, cpu_stream(s))[0];
      },
      "x"_a, "index"_a, "n_segments"_a, "stream"_a = nb::none());
  m.def(
      "elementary",
      [](const std::string& name, const mx::array& x, mx::StreamOrDevice s) {
        return mlpot::Elementary::make(function_named(name), x, cpu_stream(s));
      },
      "name"_a, "x"_a, "stream"_a = nb::none());
  mlpot::define_row_functions(m);
  mlpot::define_item_functions(m);
  m.def("set_num_threads", &mlpot::set_num_threads, "n"_a);
  m.def("num_threads", &mlpot::num_threads);
  m.attr("vector_bytes") = MLPOT_VECTOR_BYTES;
}
