#include "convolution_values.h"

namespace mlpot {
MLPOT_INSTANTIATE_CONVOLUTION(float)
}
