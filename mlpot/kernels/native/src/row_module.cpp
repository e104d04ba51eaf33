#include "row_module.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "direction_primitive.h"
#include "gate_primitive.h"
#include "interval_primitive.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlpot {
namespace {

DirectionMap map_named(const std::string& name) {
  if (name == "direction") return DirectionMap::direction;
  if (name == "length") return DirectionMap::length;
  if (name == "length_adjoint") return DirectionMap::length_adjoint;
  throw std::invalid_argument("no map of vectors is named " + name);
}

using Numbers = std::vector<double>;
using Arrays = std::vector<mx::array>;

}  // namespace

void define_row_functions(nb::module_& m) {
  nb::class_<GatePlan>(m, "GatePlan")
      .def(nb::init<int, int, const std::vector<int>&, const Numbers&>(), "dim_x"_a, "dim_out"_a,
           "integers"_a, "constants"_a);
  m.def(
      "gate",
      [](std::shared_ptr<GatePlan> plan, bool adjoint, int order, const Arrays& arrays) {
        return Gate::make(plan, adjoint, order, arrays, cpu_stream());
      },
      "plan"_a, "adjoint"_a, "order"_a, "arrays"_a);
  nb::class_<IntervalPlan>(m, "IntervalPlan")
      .def(nb::init<double, const Numbers&, const Numbers&, const std::vector<int>&,
                    const Numbers&, const Numbers&>(),
           "cutoff"_a, "starts"_a, "steps"_a, "bounds"_a, "left"_a, "inverse"_a);
  m.def(
      "locate",
      [](std::shared_ptr<IntervalPlan> plan, const Arrays& arrays) {
        return Locate::make(plan, arrays, cpu_stream());
      },
      "plan"_a, "arrays"_a);
  m.def(
      "interval_powers",
      [](std::shared_ptr<IntervalPlan> plan, bool adjoint, int order, const Arrays& arrays) {
        return IntervalPowers::make(plan, adjoint, order, arrays, cpu_stream());
      },
      "plan"_a, "adjoint"_a, "order"_a, "arrays"_a);
  m.def(
      "directions",
      [](const std::string& map, int order, const Arrays& arrays) {
        return Directions::make(map_named(map), order, arrays, cpu_stream());
      },
      "map"_a, "order"_a, "arrays"_a);
}

}  // namespace mlpot
