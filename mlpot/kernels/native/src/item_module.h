// Functions of the Python module for operations on single items.
#pragma once

#include <nanobind/nanobind.h>

namespace mlpot {
void define_item_functions(nanobind::module_& m);
}
