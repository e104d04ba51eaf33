#include "radial_changes_values.h"

namespace mlpot {
MLPOT_INSTANTIATE_RADIAL_CHANGES(float)
}
