// Rows of several items turned into vectors with one lane an item, and back.
#pragma once

#include <cstdint>
#include <utility>

#include "simd.h"

namespace mlpot {

#if defined(__clang__)
template <class T, int STEP, bool HIGH, size_t... L>
MLPOT_INLINE typename Simd<T>::Vector interleave(typename Simd<T>::Vector a,
                                                 typename Simd<T>::Vector b,
                                                 std::index_sequence<L...>) {
  constexpr int N = Simd<T>::lanes;
  return __builtin_shufflevector(a, b, (HIGH ? (L & STEP ? N + L : L + STEP)
                                             : (L & STEP ? N + L - STEP : L))...);
}
#else
template <class T, int STEP, bool HIGH, size_t... L>
MLPOT_INLINE typename Simd<T>::Vector interleave(typename Simd<T>::Vector a,
                                                 typename Simd<T>::Vector b,
                                                 std::index_sequence<L...>) {
  constexpr int N = Simd<T>::lanes;
  using I = typename Simd<T>::Integer;
  const typename Simd<T>::Bits mask = {I(HIGH ? (L & STEP ? N + L : L + STEP)
                                              : (L & STEP ? N + L - STEP : L))...};
  return __builtin_shuffle(a, b, mask);
}
#endif

// Transposes a square of lanes x lanes numbers, one exchange of pairs of rows a binary digit.
template <class T, int STEP = 1>
MLPOT_INLINE void transpose_square(typename Simd<T>::Vector* r) {
  constexpr int N = Simd<T>::lanes;
  if constexpr (STEP < N) {
    using Lanes = std::make_index_sequence<N>;
    MLPOT_UNROLL
    for (int i = 0; i < N; i++)
      if (!(i & STEP)) {
        const auto low = interleave<T, STEP, false>(r[i], r[i + STEP], Lanes{});
        r[i + STEP] = interleave<T, STEP, true>(r[i], r[i + STEP], Lanes{});
        r[i] = low;
      }
    transpose_square<T, 2 * STEP>(r);
  }
}

// to[p * lanes + item] = from[item * stride + p] for p < width; lanes without an item are zero.
template <class T>
void rows_to_lanes(const T* from, int64_t stride, int n_items, int width, T* to) {
  using S = Simd<T>;
  constexpr int N = S::lanes;
  for (int p = 0; p < width; p += N) {
    typename S::Vector r[N];
    const int n = width - p < N ? width - p : N;
    for (int i = 0; i < N; i++)
      r[i] = i >= n_items ? typename S::Vector{}
             : n == N     ? S::load(from + i * stride + p)
                          : S::load_first(from + i * stride + p, n);
    transpose_square<T>(r);
    for (int i = 0; i < n; i++) S::store(to + int64_t(p + i) * N, r[i]);
  }
}

// to[item * stride + p] = from[p * lanes + item].
template <class T>
void lanes_to_rows(const T* from, int64_t stride, int n_items, int width, T* to) {
  using S = Simd<T>;
  constexpr int N = S::lanes;
  for (int p = 0; p < width; p += N) {
    typename S::Vector r[N];
    const int n = width - p < N ? width - p : N;
    for (int i = 0; i < N; i++)
      r[i] = i < n ? S::load(from + int64_t(p + i) * N) : typename S::Vector{};
    transpose_square<T>(r);
    for (int i = 0; i < n_items; i++)
      if (n == N)
        S::store(to + i * stride + p, r[i]);
      else
        S::store_first(to + i * stride + p, r[i], n);
  }
}

}  // namespace mlpot
