// The inner loops of a convolution: one path, several edges or one, all channels.
//
// Blocks (d1, d3) with l <= 3 are compiled ahead; d1 = d3 = 0 stands for any size, known at run
// time. Rows that are read may be read beyond their last channel, up to a whole vector (see
// SafeRows); what is written ends where it should.
#pragma once

#include "convolution_plan.h"
#include "simd.h"

namespace mlpot {

// Sizes of one path as a kernel sees them: `in` is contracted with M, `out` is added to.
struct Shape {
  int d_in, d_out;
  int64_t in_stride, out_stride;
  int mul;
};

// NB vectors of channels of one path:  out[k] += sum_e w_e sum_i M_e[i, k] in_e[i].
template <class T, int DI, int DO, bool DIAGONAL, int NB>
MLPOT_INLINE void add_channels(const Shape& s, int n_edges, const T* const* in, const T* const* w,
                               const T* m, int64_t m_stride, T* out, int64_t c, int n_lanes) {
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
    const T *x = in[e] + c, *weight = w[e] + c, *me = m + e * m_stride;
    V we[NB];
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) we[b] = S::load(weight + b * L);
    MLPOT_UNROLL
    for (int i = 0; i < DI; i++) {
      V wx[NB];
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) wx[b] = we[b] * S::load(x + i * s.in_stride + b * L);
      MLPOT_UNROLL
      for (int k = 0; k < DO; k++)
        if (!DIAGONAL || i == k) {
          const T mik = DIAGONAL ? me[i] : me[i * DO + k];
          MLPOT_UNROLL
          for (int b = 0; b < NB; b++) sum[k][b] += wx[b] * mik;
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
using AddEdges = void (*)(const Shape&, int, const T* const*, const T* const*, const T*, int64_t,
                          T*);

template <class T, int DI, int DO, bool DIAGONAL>
__attribute__((noinline)) void add_edges(const Shape& s, int n_edges, const T* const* in,
                                         const T* const* w, const T* m, int64_t m_stride, T* out) {
  constexpr int L = Simd<T>::lanes;
  // Accumulators, weights and products of a step have to fit the registers.
  constexpr int NB = DO == 1 ? 4 : DO == 3 ? (kRegisters > 16 ? 4 : 2) : DO == 5 || kRegisters > 16 ? 2 : 1;
  int64_t c = 0;
  for (; c + NB * L <= s.mul; c += NB * L)
    add_channels<T, DI, DO, DIAGONAL, NB>(s, n_edges, in, w, m, m_stride, out, c, L);
  if constexpr (NB > 2)
    for (; c + 2 * L <= s.mul; c += 2 * L)
      add_channels<T, DI, DO, DIAGONAL, 2>(s, n_edges, in, w, m, m_stride, out, c, L);
  for (; c < s.mul; c += L)
    add_channels<T, DI, DO, DIAGONAL, 1>(s, n_edges, in, w, m, m_stride, out, c,
                                         s.mul - c < L ? int(s.mul - c) : L);
}

// Any sizes: one component of the output at a time.
template <class T>
__attribute__((noinline)) void add_edges_any(const Shape& s, int n_edges, const T* const* in,
                                             const T* const* w, const T* m, int64_t m_stride,
                                             T* out) {
  using S = Simd<T>;
  constexpr int L = S::lanes;
  for (int64_t c = 0; c < s.mul; c += L) {
    const int n_lanes = s.mul - c < L ? int(s.mul - c) : L;
    for (int k = 0; k < s.d_out; k++) {
      T* p = out + k * s.out_stride + c;
      auto sum = S::load_first(p, n_lanes);
      for (int e = 0; e < n_edges; e++) {
        typename S::Vector u = {};
        for (int i = 0; i < s.d_in; i++)
          u += S::load(in[e] + i * s.in_stride + c) * m[e * m_stride + i * s.d_out + k];
        sum += u * S::load(w[e] + c);
      }
      S::store_first(p, sum, n_lanes);
    }
  }
}

// Sizes of one path, for its adjoints.
struct AdjointShape {
  int d1, d3;
  int64_t x_stride, out_stride;
  int mul;
  bool first_of_coupling;
};

// Rows of one edge at the blocks of one path.
template <class T>
struct AdjointRows {
  const T *x, *w, *g, *m;
  T *w_bar, *s;
};

// Adjoints of one path of one edge:
//   w_bar = sum_i x[i] u[i]  with  u[i] = sum_k M[i, k] g[k],
// and with TO_Y
//   s[i, k] += w x[i] g[k], summed over channels within each lane (the adjoint to y follows); the
//   first path of a coupling sets s.
template <class T, int D1, int D3, bool DIAGONAL, bool TO_Y, int NB, bool PARTIAL>
MLPOT_INLINE void adjoint_channels(const AdjointShape& shape, const AdjointRows<T>& a, int64_t c,
                                   int n_lanes) {
  using S = Simd<T>;
  using V = typename S::Vector;
  constexpr int L = S::lanes;
  const int d1 = D1 ? D1 : shape.d1, d3 = D3 ? D3 : shape.d3;
  const typename S::Bits mask = PARTIAL ? S::first(n_lanes) : typename S::Bits{};
  const bool set = shape.first_of_coupling && c == 0;
  const T* __restrict m = a.m;
  T* __restrict sums = a.s;
  // Where there is room for it, g stays in registers.
  constexpr bool kKept = D3 > 0 && kRegisters > 16;
  V kept[kKept ? D3 : 1][NB];
  if constexpr (kKept)
    MLPOT_UNROLL
    for (int k = 0; k < D3; k++)
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) kept[k][b] = S::load(a.g + k * shape.out_stride + c + b * L);
  V w[NB], sum[NB] = {};
  if (TO_Y)
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) w[b] = S::load(a.w + c + b * L);
  MLPOT_UNROLL
  for (int i = 0; i < d1; i++) {
    V x[NB], wx[NB], u[NB] = {};
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      x[b] = S::load(a.x + i * shape.x_stride + c + b * L);
      if (TO_Y) wx[b] = w[b] * x[b];
    }
    MLPOT_UNROLL
    for (int k = 0; k < d3; k++)
      if (!DIAGONAL || i == k) {
        const int ik = DIAGONAL ? i : i * d3 + k;
        V s = {};
        MLPOT_UNROLL
        for (int b = 0; b < NB; b++) {
          const V g = kKept ? kept[kKept ? k : 0][b] : S::load(a.g + k * shape.out_stride + c + b * L);
          u[b] += g * m[ik];
          if (TO_Y) s += wx[b] * g;
        }
        if (TO_Y) {
          if (PARTIAL) s = S::keep(s, mask);
          S::store(sums + ik * L, set ? s : S::load(sums + ik * L) + s);
        }
      }
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) sum[b] += x[b] * u[b];
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
using Adjoint = void (*)(const AdjointShape&, const AdjointRows<T>&);

template <class T, int D1, int D3, bool DIAGONAL, bool TO_Y>
__attribute__((noinline)) void adjoint(const AdjointShape& shape, const AdjointRows<T>& a) {
  constexpr int L = Simd<T>::lanes, NB = 2;
  int64_t c = 0;
  for (; c + NB * L <= shape.mul; c += NB * L)
    adjoint_channels<T, D1, D3, DIAGONAL, TO_Y, NB, false>(shape, a, c, L);
  for (; c < shape.mul; c += L) {
    const int n_lanes = shape.mul - c < L ? int(shape.mul - c) : L;
    if (n_lanes == L)
      adjoint_channels<T, D1, D3, DIAGONAL, TO_Y, 1, false>(shape, a, c, L);
    else
      adjoint_channels<T, D1, D3, DIAGONAL, TO_Y, 1, true>(shape, a, c, n_lanes);
  }
}

// Without and with the sums for the adjoint to y.
template <class T>
struct Adjoints {
  Adjoint<T> to_w, to_both;
};

template <class T, int D1, int D3, bool DIAGONAL>
constexpr Adjoints<T> adjoints() {
  return {adjoint<T, D1, D3, DIAGONAL, false>, adjoint<T, D1, D3, DIAGONAL, true>};
}

// The compiled kernel of each pair of sizes; the slot of an unusual size is the one for any.
template <class T>
struct Kernels {
  AddEdges<T> add;
  Adjoints<T> adjoint;
};

template <class T>
Kernels<T> kernels_of(int d_in, int d_out, bool diagonal) {
  if (diagonal) {
    switch (d_in) {
      case 3:
        return {add_edges<T, 3, 3, true>, adjoints<T, 3, 3, true>()};
      case 5:
        return {add_edges<T, 5, 5, true>, adjoints<T, 5, 5, true>()};
      case 7:
        return {add_edges<T, 7, 7, true>, adjoints<T, 7, 7, true>()};
    }
  }
#define MLPOT_CASE(DI, DO) \
  if (d_in == DI && d_out == DO) return {add_edges<T, DI, DO, false>, adjoints<T, DI, DO, false>()};
#define MLPOT_CASES(DI) MLPOT_CASE(DI, 1) MLPOT_CASE(DI, 3) MLPOT_CASE(DI, 5) MLPOT_CASE(DI, 7)
  MLPOT_CASES(1)
  MLPOT_CASES(3)
  MLPOT_CASES(5)
  MLPOT_CASES(7)
#undef MLPOT_CASES
#undef MLPOT_CASE
  return {add_edges_any<T>, adjoints<T, 0, 0, false>()};
}

}  // namespace mlpot
