#include "elementary.h"

#include <algorithm>
#include <cmath>

#include "threads.h"
#include "vector_math.h"

namespace mlpot {
namespace {

constexpr int64_t kElementsOfAChunk = 16384;
constexpr int64_t kOperationsOfAFunction = 16;

template <class T, class F>
MLPOT_INLINE void for_vectors(const T* x, T* y, int64_t n, const F& f) {
  using S = Simd<T>;
  int64_t i = 0;
  for (; i + S::lanes <= n; i += S::lanes) S::store(y + i, f(S::load(x + i)));
  const int rest = int(n - i);
  if (rest) S::store_first(y + i, f(S::load_first(x + i, rest)), rest);
}

// Angles that the reduction is not made for go to the C library, one by one. The others give
// the same bits whatever their neighbours are.
template <class T>
void sines(const T* x, T* y, int64_t n, int quarter) {
  using S = Simd<T>;
  constexpr int64_t kBlock = 256;
  const T limit = Constants<T>::largest_angle;
  const auto f = [=](Vec<T> v) { return vsin<T>(v, quarter); };
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = std::min(kBlock, n - at);
    bool all_small = true;
    for (int64_t i = at; i < at + m; i++) all_small &= std::abs(x[i]) <= limit;
    if (all_small) {
      for_vectors<T>(x + at, y + at, m, f);
      continue;
    }
    for (int64_t i = at; i < at + m; i++)
      y[i] = std::abs(x[i]) <= limit ? f(S::all(x[i]))[0] : quarter ? std::cos(x[i]) : std::sin(x[i]);
  }
}

template <class T>
void silu_derivative(int order, const T* x, T* y, int64_t n) {
  const auto apply = [=](const auto& g) {
    for_vectors<T>(x, y, n, [&](Vec<T> v) {
      Vec<T> s, t;
      logistic<T>(v, s, t);
      return g(v, s, t);
    });
  };
  // With s the logistic function and t = 1 - s: s' = s t, t' = -s t.
  switch (order) {
    case 1:
      return apply([](Vec<T> v, Vec<T> s, Vec<T> t) { return s * (T(1) + v * t); });
    case 2:
      return apply([](Vec<T> v, Vec<T> s, Vec<T> t) { return s * t * (T(2) + v * (t - s)); });
    default:
      return apply([](Vec<T> v, Vec<T> s, Vec<T> t) {
        return s * t * (T(3) * (t - s) + v * (T(1) - T(6) * s * t));
      });
  }
}

template <class T>
void range(Function f, const T* x, T* y, int64_t n) {
  switch (f) {
    case Function::exp:
      return for_vectors<T>(x, y, n, [](Vec<T> v) { return vexp<T>(v); });
    case Function::sin:
      return sines<T>(x, y, n, 0);
    case Function::cos:
      return sines<T>(x, y, n, 1);
    case Function::sigmoid:
      return for_vectors<T>(x, y, n, [](Vec<T> v) {
        Vec<T> s, t;
        logistic<T>(v, s, t);
        return s;
      });
    case Function::tanh:
      return for_vectors<T>(x, y, n, [](Vec<T> v) { return vtanh<T>(v); });
    case Function::silu0:
      return for_vectors<T>(x, y, n, [](Vec<T> v) { return v / (T(1) + vexp<T>(-v)); });
    case Function::silu1:
      return silu_derivative<T>(1, x, y, n);
    case Function::silu2:
      return silu_derivative<T>(2, x, y, n);
    case Function::silu3:
      return silu_derivative<T>(3, x, y, n);
  }
}

}  // namespace

template <class T>
void evaluate(Function f, const T* x, T* y, int64_t n) {
  const int64_t work = n * kOperationsOfAFunction / Simd<T>::lanes;
  parallel(n, kElementsOfAChunk, work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end)) range<T>(f, x + begin, y + begin, end - begin);
  });
}

template void evaluate<float>(Function, const float*, float*, int64_t);
template void evaluate<double>(Function, const double*, double*, int64_t);

}  // namespace mlpot
