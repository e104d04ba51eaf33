#include "item_product_values.h"

namespace mlpot {
template void item_product<double>(const ItemPlan&, ItemMap, int64_t, bool, const double*,
                                   const double*, const double*, const double*, double*);
}
