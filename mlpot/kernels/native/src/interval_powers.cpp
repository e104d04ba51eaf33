#include "interval_powers.h"

#include <algorithm>
#include <cmath>

#include "threads.h"

namespace mlpot {
namespace {

constexpr int64_t kDistancesOfAChunk = 1024;
constexpr int64_t kOperationsOfADistance = 6;

// m (m - 1) ... of `order` factors.
double falling(int m, int order) {
  double product = 1;
  for (int k = 0; k < order; k++) product *= m - k;
  return product;
}

// Derivatives of the powers at r, zeros from the cutoff on.
template <class T>
struct Powers {
  T factors[kPowers];

  void at(const IntervalPlan& plan, int order, T r, int32_t row, T value[kPowers]) const {
    if (!(r < T(plan.cutoff))) {
      for (int m = 0; m < kPowers; m++) value[m] = 0;
      return;
    }
    const int interval = int(row / kPowers % int64_t(plan.left.size()));
    // In the precision of r: the left ends are numbers that float32 has.
    const T inverse = T(plan.inverse[interval]), t = (r - T(plan.left[interval])) * inverse;
    T power = 1;
    for (int k = 0; k < order; k++) power *= inverse;
    for (int m = 0; m < order; m++) value[m] = 0;
    for (int m = order; m < kPowers; m++, power *= t) value[m] = factors[m] * power;
  }

  explicit Powers(int order) {
    for (int m = 0; m < kPowers; m++) factors[m] = T(falling(m, order));
  }
};

template <class Body>
void for_all(int64_t n, const Body& body) {
  parallel(n, kDistancesOfAChunk, n * kOperationsOfADistance, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t i = begin; i < end; i++) body(i);
  });
}

}  // namespace

template <class T>
void locate(const IntervalPlan& plan, int64_t n, const T* r, const int32_t* kinds, int32_t* rows) {
  const int pieces = int(plan.starts.size()), n_intervals = plan.bounds.back();
  for_all(n, [&](int64_t i) {
    int piece = 0;
    for (int p = 1; p < pieces; p++) piece += r[i] >= T(plan.starts[p]);
    const int first = plan.bounds[piece], last = plan.bounds[piece + 1] - 1;
    const T offset = (r[i] < T(plan.cutoff) ? r[i] : T(plan.cutoff)) - T(plan.starts[piece]);
    const T place = std::floor(offset * T(plan.steps[piece]));
    const int interval = std::clamp(place > 0 ? int(place) + first : first, first, last);
    rows[i] = kPowers * (interval + (kinds ? kinds[i] * n_intervals : 0));
  });
}

template <class T>
void interval_out(const IntervalPlan& plan, int order, int64_t n, const T* r, const T* const* a,
                  const int32_t* rows, T* out) {
  const Powers<T> powers(order);
  for_all(n, [&](int64_t i) {
    T* value = out + i * kPowers;
    powers.at(plan, order, r[i], rows[i], value);
    for (int k = 0; k < order; k++)
      for (int m = 0; m < kPowers; m++) value[m] *= a[k][i];
  });
}

template <class T>
void interval_adjoint(const IntervalPlan& plan, int order, int64_t n, const T* r, const T* g,
                      const T* const* a, const int32_t* rows, T* out) {
  const Powers<T> powers(order);
  for_all(n, [&](int64_t i) {
    T value[kPowers], total = 0;
    powers.at(plan, order, r[i], rows[i], value);
    for (int m = 0; m < kPowers; m++) total += g[i * kPowers + m] * value[m];
    for (int k = 0; k + 1 < order; k++) total *= a[k][i];
    out[i] = total;
  });
}

#define MLPOT_INSTANTIATE(T)                                                                      \
  template void locate<T>(const IntervalPlan&, int64_t, const T*, const int32_t*, int32_t*);      \
  template void interval_out<T>(const IntervalPlan&, int, int64_t, const T*, const T* const*,     \
                                const int32_t*, T*);                                              \
  template void interval_adjoint<T>(const IntervalPlan&, int, int64_t, const T*, const T*,        \
                                    const T* const*, const int32_t*, T*);
MLPOT_INSTANTIATE(float)
MLPOT_INSTANTIATE(double)

}  // namespace mlpot
