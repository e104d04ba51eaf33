// Edge weights as combinations of rows of a table, made where they are needed:
//
//   w[e, :] = sum_{m < M} h[e, m] table[rows[e] + m, :]
//
// M = 6 (quintic Hermite interpolation) has loops of its own. Without rows (null) every edge
// combines all M rows, so edges are taken together and each vector of the table is loaded once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd.h"

namespace mlpot {

constexpr int kHermite = 6;
constexpr int kEdgesTogether = 8;

template <class T>
struct RadialTable {
  const T *h, *table;
  const int32_t* rows;
  int64_t n_coefficients, n_rows, n_weights;

  using S = Simd<T>;
  using V = typename S::Vector;

  // Room of one row of weights: whole vectors, and one more that kernels may read.
  int64_t stride() const { return (n_weights + S::lanes - 1) / S::lanes * S::lanes + S::lanes; }

  const T* rows_of(int64_t e) const { return table + (rows ? rows[e] : 0) * n_weights; }
  const T* coefficients_of(int64_t e) const { return h + e * n_coefficients; }

  // w[q * stride()] = weights of edge e[q], q < n_edges <= kEdgesTogether.
  void combine(int n_edges, const int64_t* e, T* w) const {
    if (!rows) return combine_together(n_edges, e, w);
    for (int q = 0; q < n_edges; q++) {
      T* to = w + q * stride();
      const T* next = rows_of(e[std::min(q + 1, n_edges - 1)]);
      if (n_coefficients == kHermite)
        combine_one<kHermite>(rows_of(e[q]), next, coefficients_of(e[q]), to);
      else
        combine_one<0>(rows_of(e[q]), next, coefficients_of(e[q]), to);
    }
  }

  // combine for several sets of coefficients, w[i] with h[i] in place of h. An edge's rows are read
  // for two sets at a time, and for all before those of the next edge.
  void combine_sets(int n_edges, const int64_t* e, int n_sets, const T* const* h_sets,
                    T* const* w) const {
    if (!rows || n_coefficients != kHermite) {
      for (int i = 0; i < n_sets; i++) {
        RadialTable one = *this;
        one.h = h_sets[i];
        one.combine(n_edges, e, w[i]);
      }
      return;
    }
    for (int q = 0; q < n_edges; q++) {
      const auto b = [&](int i) { return h_sets[i] + e[q] * kHermite; };
      const auto to = [&](int i) { return w[i] + q * stride(); };
      const T *t = rows_of(e[q]), *next = rows_of(e[std::min(q + 1, n_edges - 1)]);
      int i = 0;
      for (; i + 2 <= n_sets; i += 2) combine_two(t, next, b(i), b(i + 1), to(i), to(i + 1));
      if (i < n_sets) combine_one<kHermite>(t, next, b(i), to(i));
    }
  }

  // h_bar[m] = sum over columns of w_bar table[rows[e] + m].
  void adjoint_to_h(int64_t e, const T* w_bar, T* h_bar) const {
    const T* t = rows_of(e);
    int64_t m = 0;
    for (; m + kHermite <= n_coefficients; m += kHermite)
      products<kHermite>(t + m * n_weights, w_bar, h_bar + m);
    for (; m < n_coefficients; m++) products<1>(t + m * n_weights, w_bar, h_bar + m);
  }

  // sums[m * n_weights + c] += sum over edges of h[e, m] w_bar_e[c], n_edges with equal rows;
  // w_bar[q * stride()] belongs to edge e[q].
  void adjoint_to_table(int n_edges, const int64_t* e, const T* w_bar, T* sums) const {
    int64_t m = 0;
    for (; m + kHermite <= n_coefficients; m += kHermite)
      outer<kHermite>(n_edges, e, m, w_bar, sums + m * n_weights);
    for (; m < n_coefficients; m++) outer<1>(n_edges, e, m, w_bar, sums + m * n_weights);
  }

 private:
  // Calls at(c, n_lanes) for all vectors of a row of weights.
  template <class At>
  MLPOT_INLINE void for_columns(const At& at) const {
    int64_t c = 0;
    for (; c + S::lanes <= n_weights; c += S::lanes) at(c, int(S::lanes));
    if (c < n_weights) at(c, int(n_weights - c));
  }
  static MLPOT_INLINE V load(const T* p, int n_lanes) {
    return n_lanes == S::lanes ? S::load(p) : S::load_first(p, n_lanes);
  }

  // Tables are larger than the second-level cache, and what an edge needs of it is predictable to
  // nobody else: the rows of the next edge are fetched along with these.
  template <int M>
  __attribute__((noinline)) void combine_one(const T* t, const T* next, const T* b, T* w) const {
    for_columns([&](int64_t c, int n_lanes) {
      if constexpr (M > 0) {
        MLPOT_UNROLL
        for (int m = 0; m < M; m++) __builtin_prefetch(next + m * n_weights + c);
        // From zero, as in combine_two: which product is fused with which sum is not left open.
        V sum[2] = {};
        MLPOT_UNROLL
        for (int m = 0; m < M; m++) sum[m % 2] += load(t + m * n_weights + c, n_lanes) * b[m];
        S::store(w + c, sum[0] + sum[1]);
      } else {
        V sum = {};
        for (int64_t m = 0; m < n_coefficients; m++)
          sum += load(t + m * n_weights + c, n_lanes) * b[m];
        S::store(w + c, sum);
      }
    });
  }

  __attribute__((noinline)) void combine_two(const T* t, const T* next, const T* b0, const T* b1,
                                             T* w0, T* w1) const {
    for_columns([&](int64_t c, int n_lanes) {
      V sum[2][2] = {};
      MLPOT_UNROLL
      for (int m = 0; m < kHermite; m++) {
        __builtin_prefetch(next + m * n_weights + c);
        const V row = load(t + m * n_weights + c, n_lanes);
        sum[0][m % 2] += row * b0[m];
        sum[1][m % 2] += row * b1[m];
      }
      S::store(w0 + c, sum[0][0] + sum[0][1]);
      S::store(w1 + c, sum[1][0] + sum[1][1]);
    });
  }

  __attribute__((noinline)) void combine_together(int n_edges, const int64_t* e, T* w) const {
    const T* b[kEdgesTogether];
    for (int q = 0; q < kEdgesTogether; q++) b[q] = coefficients_of(e[std::min(q, n_edges - 1)]);
    const int64_t step = stride();
    for_columns([&](int64_t c, int n_lanes) {
      V sum[kEdgesTogether] = {};
      for (int64_t m = 0; m < n_coefficients; m++) {
        const V t = load(table + m * n_weights + c, n_lanes);
        MLPOT_UNROLL
        for (int q = 0; q < kEdgesTogether; q++) sum[q] += t * b[q][m];
      }
      for (int q = 0; q < n_edges; q++) S::store(w + q * step + c, sum[q]);
    });
  }

  template <int M>
  __attribute__((noinline)) void products(const T* t, const T* w_bar, T* h_bar) const {
    V sum[M] = {};
    for_columns([&](int64_t c, int n_lanes) {
      const V d = load(w_bar + c, n_lanes);
      MLPOT_UNROLL
      for (int m = 0; m < M; m++) sum[m] += load(t + m * n_weights + c, n_lanes) * d;
    });
    for (int m = 0; m < M; m++) h_bar[m] = S::sum(sum[m]);
  }

  template <int M>
  __attribute__((noinline)) void outer(int n_edges, const int64_t* e, int64_t first,
                                       const T* w_bar, T* sums) const {
    const int64_t step = stride();
    for_columns([&](int64_t c, int n_lanes) {
      V sum[M];
      MLPOT_UNROLL
      for (int m = 0; m < M; m++) sum[m] = load(sums + m * n_weights + c, n_lanes);
      for (int q = 0; q < n_edges; q++) {
        const V d = load(w_bar + q * step + c, n_lanes);
        const T* b = coefficients_of(e[q]) + first;
        MLPOT_UNROLL
        for (int m = 0; m < M; m++) sum[m] += d * b[m];
      }
      MLPOT_UNROLL
      for (int m = 0; m < M; m++) {
        if (n_lanes == S::lanes)
          S::store(sums + m * n_weights + c, sum[m]);
        else
          S::store_first(sums + m * n_weights + c, sum[m], n_lanes);
      }
    });
  }
};

}  // namespace mlpot
