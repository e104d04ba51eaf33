#include "harmonics.h"

#include <algorithm>
#include <stdexcept>

#include "scratch.h"
#include "threads.h"
#include "transpose.h"

namespace mlpot {
namespace {

constexpr int64_t kTilesOfAChunk = 16;

template <class T>
ItemTerms<T> terms_of(int l, const double* table) {
  ItemTerms<T> found;
  const int n_products = 3 * (2 * l - 1);
  for (int m = 0; m < 2 * l + 1; m++) {
    for (int p = 0; p < n_products; p++)
      if (table[m * n_products + p] != 0) found.terms.push_back({p, T(table[m * n_products + p])});
    found.begin.push_back(static_cast<int32_t>(found.terms.size()));
  }
  return found;
}

// One vector of lanes of x at a time; products and values lie in lanes.
template <class T>
void values_in_lanes(const HarmonicsPlan& plan, const T* x, T* products, T* y) {
  using S = Simd<T>;
  constexpr int N = S::lanes;
  S::store(y, S::all(T(1)));
  for (int l = 1; l <= plan.lmax; l++) {
    const T* lower = y + (l - 1) * (l - 1) * N;
    for (int k = 0; k < 3; k++)
      for (int j = 0; j < 2 * l - 1; j++)
        S::store(products + (k * (2 * l - 1) + j) * N, S::load(x + k * N) * S::load(lower + j * N));
    const ItemTerms<T>& table = plan.degrees<T>()[l - 1];
    for (int m = 0; m < 2 * l + 1; m++) {
      typename S::Vector sum = {};
      for (int t = table.begin[m]; t < table.begin[m + 1]; t++)
        sum += S::load(products + table.terms[t].from * N) * table.terms[t].c;
      S::store(y + (l * l + m) * N, sum);
    }
  }
}

template <class T>
void harmonics(const HarmonicsPlan& plan, int64_t n, const T* x, T* out) {
  constexpr int64_t N = Simd<T>::lanes;
  const int dim = (plan.lmax + 1) * (plan.lmax + 1);
  const int64_t n_tiles = (n + N - 1) / N;
  int64_t operations = 4 * dim;
  for (const auto& table : plan.degrees<T>()) operations += table.terms.size();
  parallel(n_tiles, kTilesOfAChunk, n_tiles * operations, [&](Chunks& chunks) {
    Scratch<T> xs(3 * N), products(3 * (2 * plan.lmax + 1) * N), ys(dim * N);
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t t = begin; t < end; t++) {
        const int n_items = static_cast<int>(std::min(N, n - t * N));
        rows_to_lanes(x + t * N * 3, 3, n_items, 3, xs.data());
        values_in_lanes(plan, xs.data(), products.data(), ys.data());
        lanes_to_rows(ys.data(), dim, n_items, dim, out + t * N * dim);
      }
  });
}

}  // namespace

HarmonicsPlan::HarmonicsPlan(int lmax, const std::vector<double>& tables) : lmax(lmax) {
  size_t at = 0;
  for (int l = 1; l <= lmax; l++) {
    const size_t size = size_t(2 * l + 1) * 3 * (2 * l - 1);
    if (at + size > tables.size()) throw std::invalid_argument("a table of harmonics is missing");
    degrees_float.push_back(terms_of<float>(l, tables.data() + at));
    degrees_double.push_back(terms_of<double>(l, tables.data() + at));
    at += size;
  }
}

mx::array Harmonics::make(const std::shared_ptr<const HarmonicsPlan>& plan, const mx::array& x,
                          mx::Stream s) {
  require(x.ndim() == 2 && x.shape(1) == 3, "harmonics take vectors (n, 3)");
  return mx::array({x.shape(0), (plan->lmax + 1) * (plan->lmax + 1)}, float_type(x),
                   std::make_shared<Harmonics>(s, plan), {x});
}

template <class T>
void Harmonics::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  enqueue<T>(inputs, outputs,
             [plan = plan_, n = int64_t(inputs[0].shape(0))](const std::vector<const void*>& in,
                                                             const std::vector<T*>& out) {
               harmonics<T>(*plan, n, static_cast<const T*>(in[0]), out[0]);
             });
}

void Harmonics::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

}  // namespace mlpot
