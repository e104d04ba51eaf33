// The inner loops of a convolution whose arguments change: what the sum of the changes of one
// argument at a time comes to, in one pass. Compare convolution_kernels.h.
#pragma once

#include "convolution_kernels.h"

namespace mlpot {

// Rows of the edges of a node at the blocks of one path, and their changes.
template <class T>
struct ChangedBlock {
  const T *const *in, *const *d_in, *const *w, *const *d_w;
  const T *m, *d_m;
  int64_t m_stride;
};

// NB vectors of channels of one path:
//   out[k] += sum_e sum_i (d_w in + w d_in)[i] M[i, k] + w in[i] d_M[i, k].
template <class T, int DI, int DO, bool DIAGONAL, int NB>
MLPOT_INLINE void add_changed_channels(const Shape& s, int n_edges, const ChangedBlock<T>& a,
                                       T* out, int64_t c, int n_lanes) {
  using S = Simd<T>;
  using V = typename S::Vector;
  constexpr int L = S::lanes;
  V sum[DO][NB];
  MLPOT_UNROLL
  for (int k = 0; k < DO; k++)
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      const T* p = out + k * s.out_stride + c + b * L;
      sum[k][b] = NB > 1 || n_lanes == L ? S::load(p) : S::load_first(p, n_lanes);
    }
  for (int e = 0; e < n_edges; e++) {
    const T *x = a.in[e] + c, *dx = a.d_in[e] + c;
    const T *m = a.m + e * a.m_stride, *d_m = a.d_m + e * a.m_stride;
    V w[NB], d_w[NB];
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      w[b] = S::load(a.w[e] + c + b * L);
      d_w[b] = S::load(a.d_w[e] + c + b * L);
    }
    MLPOT_UNROLL
    for (int i = 0; i < DI; i++) {
      V wx[NB], d_wx[NB];
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) {
        const V xi = S::load(x + i * s.in_stride + b * L);
        wx[b] = w[b] * xi;
        d_wx[b] = d_w[b] * xi + w[b] * S::load(dx + i * s.in_stride + b * L);
      }
      MLPOT_UNROLL
      for (int k = 0; k < DO; k++)
        if (!DIAGONAL || i == k) {
          const int ik = DIAGONAL ? i : i * DO + k;
          MLPOT_UNROLL
          for (int b = 0; b < NB; b++) sum[k][b] += d_wx[b] * m[ik] + wx[b] * d_m[ik];
        }
    }
  }
  MLPOT_UNROLL
  for (int k = 0; k < DO; k++)
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      T* p = out + k * s.out_stride + c + b * L;
      if (NB > 1 || n_lanes == L)
        S::store(p, sum[k][b]);
      else
        S::store_first(p, sum[k][b], n_lanes);
    }
}

template <class T>
using AddChanged = void (*)(const Shape&, int, const ChangedBlock<T>&, T*);

template <class T, int DI, int DO, bool DIAGONAL>
__attribute__((noinline)) void add_changed(const Shape& s, int n_edges, const ChangedBlock<T>& a,
                                           T* out) {
  constexpr int L = Simd<T>::lanes;
  constexpr int NB = DO == 1 && kRegisters > 16 ? 4 : DO <= 3 || kRegisters > 16 ? 2 : 1;
  int64_t c = 0;
  for (; c + NB * L <= s.mul; c += NB * L)
    add_changed_channels<T, DI, DO, DIAGONAL, NB>(s, n_edges, a, out, c, L);
  for (; c < s.mul; c += L)
    add_changed_channels<T, DI, DO, DIAGONAL, 1>(s, n_edges, a, out, c,
                                                 s.mul - c < L ? int(s.mul - c) : L);
}

// Any sizes: one change after the other.
template <class T>
void add_changed_any(const Shape& s, int n_edges, const ChangedBlock<T>& a, T* out) {
  add_edges_any<T>(s, n_edges, a.d_in, a.w, a.m, a.m_stride, out);
  add_edges_any<T>(s, n_edges, a.in, a.d_w, a.m, a.m_stride, out);
  add_edges_any<T>(s, n_edges, a.in, a.w, a.d_m, a.m_stride, out);
}

// Rows of one edge at the blocks of one path, and their changes.
template <class T>
struct ChangedRows {
  const T *x, *d_x, *w, *d_w, *g, *d_g, *m, *d_m;
  T *w_bar, *s;
};

// Changes of the adjoints of one path of one edge (see adjoint_channels), with u = M g:
//   w_bar = sum_i d_x[i] u[i] + x[i] sum_k (M d_g + d_M g)[i, k]
//   s[i, k] += (d_w x + w d_x)[i] g[k] + w x[i] d_g[k]
// Without EDGES d_w and d_M are zero.
template <class T, int D1, int D3, bool DIAGONAL, bool EDGES, int NB, bool PARTIAL>
MLPOT_INLINE void changed_adjoint_channels(const AdjointShape& shape, const ChangedRows<T>& a,
                                           int64_t c, int n_lanes) {
  using S = Simd<T>;
  using V = typename S::Vector;
  constexpr int L = S::lanes;
  const int d1 = D1 ? D1 : shape.d1, d3 = D3 ? D3 : shape.d3;
  const typename S::Bits mask = PARTIAL ? S::first(n_lanes) : typename S::Bits{};
  const bool set = shape.first_of_coupling && c == 0;
  const T *__restrict m = a.m, *__restrict d_m = a.d_m;
  T* __restrict sums = a.s;
  V w[NB], d_w[NB], sum[NB] = {};
  MLPOT_UNROLL
  for (int b = 0; b < NB; b++) {
    w[b] = S::load(a.w + c + b * L);
    if (EDGES) d_w[b] = S::load(a.d_w + c + b * L);
  }
  MLPOT_UNROLL
  for (int i = 0; i < d1; i++) {
    V x[NB], dx[NB], wx[NB], d_wx[NB], u[NB] = {}, du[NB] = {};
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      x[b] = S::load(a.x + i * shape.x_stride + c + b * L);
      dx[b] = S::load(a.d_x + i * shape.x_stride + c + b * L);
      wx[b] = w[b] * x[b];
      d_wx[b] = w[b] * dx[b];
      if (EDGES) d_wx[b] += d_w[b] * x[b];
    }
    MLPOT_UNROLL
    for (int k = 0; k < d3; k++)
      if (!DIAGONAL || i == k) {
        const int ik = DIAGONAL ? i : i * d3 + k;
        V s = {};
        MLPOT_UNROLL
        for (int b = 0; b < NB; b++) {
          const V g = S::load(a.g + k * shape.out_stride + c + b * L);
          const V dg = S::load(a.d_g + k * shape.out_stride + c + b * L);
          u[b] += g * m[ik];
          du[b] += dg * m[ik];
          if (EDGES) du[b] += g * d_m[ik];
          s += d_wx[b] * g + wx[b] * dg;
        }
        if (PARTIAL) s = S::keep(s, mask);
        S::store(sums + ik * L, set ? s : S::load(sums + ik * L) + s);
      }
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) sum[b] += dx[b] * u[b] + x[b] * du[b];
  }
  MLPOT_UNROLL
  for (int b = 0; b < NB; b++) {
    if (PARTIAL)
      S::store_first(a.w_bar + c + b * L, sum[b], n_lanes);
    else
      S::store(a.w_bar + c + b * L, sum[b]);
  }
}

template <class T>
using ChangedAdjoint = void (*)(const AdjointShape&, const ChangedRows<T>&);

template <class T, int D1, int D3, bool DIAGONAL, bool EDGES>
__attribute__((noinline)) void changed_adjoint(const AdjointShape& shape,
                                               const ChangedRows<T>& a) {
  constexpr int L = Simd<T>::lanes, NB = 2;
  int64_t c = 0;
  for (; c + NB * L <= shape.mul; c += NB * L)
    changed_adjoint_channels<T, D1, D3, DIAGONAL, EDGES, NB, false>(shape, a, c, L);
  for (; c < shape.mul; c += L)
    changed_adjoint_channels<T, D1, D3, DIAGONAL, EDGES, 1, true>(
        shape, a, c, shape.mul - c < L ? int(shape.mul - c) : L);
}

// Of features alone, and of harmonics and weights too.
template <class T>
struct ChangedAdjoints {
  ChangedAdjoint<T> nodes, all;
};

template <class T, int D1, int D3, bool DIAGONAL>
constexpr ChangedAdjoints<T> changed_adjoints() {
  return {changed_adjoint<T, D1, D3, DIAGONAL, false>, changed_adjoint<T, D1, D3, DIAGONAL, true>};
}

template <class T>
struct ChangedKernels {
  AddChanged<T> add;
  ChangedAdjoints<T> adjoint;
};

// As kernels_of.
template <class T>
ChangedKernels<T> changed_kernels_of(int d_in, int d_out, bool diagonal) {
  if (diagonal) {
    switch (d_in) {
      case 3:
        return {add_changed<T, 3, 3, true>, changed_adjoints<T, 3, 3, true>()};
      case 5:
        return {add_changed<T, 5, 5, true>, changed_adjoints<T, 5, 5, true>()};
      case 7:
        return {add_changed<T, 7, 7, true>, changed_adjoints<T, 7, 7, true>()};
    }
  }
#define MLPOT_CASE(DI, DO)         \
  if (d_in == DI && d_out == DO)   \
    return {add_changed<T, DI, DO, false>, changed_adjoints<T, DI, DO, false>()};
#define MLPOT_CASES(DI) MLPOT_CASE(DI, 1) MLPOT_CASE(DI, 3) MLPOT_CASE(DI, 5) MLPOT_CASE(DI, 7)
  MLPOT_CASES(1)
  MLPOT_CASES(3)
  MLPOT_CASES(5)
  MLPOT_CASES(7)
#undef MLPOT_CASES
#undef MLPOT_CASE
  return {add_changed_any<T>, changed_adjoints<T, 0, 0, false>()};
}

}  // namespace mlpot
