// Functions of the Python module on single rows.
#pragma once

#include <nanobind/nanobind.h>

namespace mlpot {
void define_row_functions(nanobind::module_& m);
}
