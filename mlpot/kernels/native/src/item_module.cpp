#include "item_module.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "harmonics.h"
#include "item_primitives.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlpot {
namespace {

ItemMap map_to(const std::string& name) {
  if (name == "g") return ItemMap::out;
  if (name == "x") return ItemMap::x;
  if (name == "y") return ItemMap::y;
  if (name == "w") return ItemMap::w;
  throw std::invalid_argument("a product of items has no gradient to " + name);
}

}  // namespace

void define_item_functions(nb::module_& m) {
  nb::class_<ItemPlan>(m, "ItemPlan")
      .def(nb::init<int, int, int, int, const std::vector<int>&, const std::vector<double>&>(),
           "dim_x"_a, "dim_y"_a, "n_weights"_a, "dim_out"_a, "integers"_a, "coefficients"_a);
  m.def(
      "item_product",
      [](std::shared_ptr<ItemPlan> plan, const std::string& target, bool shared,
         const std::vector<mx::array>& arrays) {
        return ItemProduct::make(plan, map_to(target), shared, arrays, cpu_stream());
      },
      "plan"_a, "target"_a, "shared"_a, "arrays"_a);
  nb::class_<HarmonicsPlan>(m, "HarmonicsPlan")
      .def(nb::init<int, const std::vector<double>&>(), "lmax"_a, "tables"_a);
  m.def(
      "harmonics",
      [](std::shared_ptr<HarmonicsPlan> plan, const mx::array& x) {
        return Harmonics::make(plan, x, cpu_stream());
      },
      "plan"_a, "x"_a);
}

}  // namespace mlpot
