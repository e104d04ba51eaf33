#include "item_product_values.h"

namespace mlpot {
template void item_product<float>(const ItemPlan&, ItemMap, int64_t, bool, const float*,
                                  const float*, const float*, const float*, float*);
}
