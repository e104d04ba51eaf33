#include "radial_convolution_values.h"

namespace mlpot {
MLPOT_INSTANTIATE_CONVOLUTION(float)
MLPOT_INSTANTIATE_RADIAL_CONVOLUTION(float)
}
