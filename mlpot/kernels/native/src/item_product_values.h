// Products of items over all items; included once for each precision.
#pragma once

#include "item_product_tile.h"
#include "threads.h"

namespace mlpot {

// Adjoints to shared weights are sums over all items: in this many parts whose ends depend on the
// number of items alone, so that the result is the same with any number of threads.
constexpr int64_t kParts = 8;

template <class T, bool SHARED>
void item_product_of(const ItemPlan& plan, ItemMap map, int64_t n_items, const T* x, const T* y,
                     const T* w, const T* g, T* result) {
  constexpr int64_t N = Simd<T>::lanes;
  const int64_t n_tiles = (n_items + N - 1) / N;
  const bool sums = SHARED && map == ItemMap::w;
  const int64_t n_parts = sums ? std::min(kParts, n_tiles) : n_tiles;
  std::vector<T> partial(sums ? n_parts * plan.n_weights : 0, T(0));
  if (map == ItemMap::w && !SHARED && plan.used_weights < plan.n_weights)
    std::fill_n(result, n_items * plan.n_weights, T(0));
  const int64_t work = n_tiles * (plan.operations + plan.dim_out);
  parallel(n_parts, 1, work, [&](Chunks& chunks) {
    ItemTile<T, SHARED> tile(plan, map, x, y, w, g, result);
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t t = begin * n_tiles / n_parts; t < end * n_tiles / n_parts; t++)
        tile.run(t * N, static_cast<int>(std::min(N, n_items - t * N)),
                 sums ? partial.data() + begin * plan.n_weights : nullptr);
  });
  if (!sums) return;
  std::fill_n(result, plan.n_weights, T(0));
  for (int64_t p = 0; p < n_parts; p++)
    for (int64_t i = 0; i < plan.n_weights; i++) result[i] += partial[p * plan.n_weights + i];
}

template <class T>
void item_product(const ItemPlan& plan, ItemMap map, int64_t n_items, bool shared, const T* x,
                  const T* y, const T* w, const T* g, T* result) {
  if (shared)
    item_product_of<T, true>(plan, map, n_items, x, y, w, g, result);
  else
    item_product_of<T, false>(plan, map, n_items, x, y, w, g, result);
}

}  // namespace mlpot
