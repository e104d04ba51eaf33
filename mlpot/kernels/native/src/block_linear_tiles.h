// Inner loops of linear maps between blocks: a few rows times a few vectors of channels in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "simd.h"

namespace mlpot {

// Rows of a tile: with two vectors each, their sums fill half of the registers.
constexpr int kTileRows = kRegisters > 16 ? 8 : 4;

// One matrix that maps a block: (n_y, mul_in, stride) with stride a whole number of vectors.
template <class T>
struct Matrix {
  int64_t in_offset, mul_in, stride;
  const T* values;
};

// Row (k of node n) of a block, by the first column of the node.
template <class T>
struct BlockRow {
  const T* in;
  T* out;
  int k;
  T y;
};

// out[c .. ] += y sum over matrices and u of in[u] matrix[u, c ..] for kTileRows rows, of which
// n_rows count; n_lanes channels of the last of NB vectors.
template <class T, int NB>
MLPOT_INLINE void add_tile(const Matrix<T>* matrices, int n_matrices, int64_t v,
                           const BlockRow<T>* rows, int n_rows, int64_t c, int n_lanes) {
  using S = Simd<T>;
  using V = typename S::Vector;
  constexpr int L = S::lanes, R = kTileRows;
  V sum[R][NB] = {};
  for (int q = 0; q < n_matrices; q++) {
    const Matrix<T>& m = matrices[q];
    const T* in[R];
    for (int r = 0; r < R; r++) {
      const BlockRow<T>& row = rows[std::min(r, n_rows - 1)];
      in[r] = row.in + m.in_offset + row.k * m.mul_in;
    }
    const T* w = m.values + v * m.mul_in * m.stride + c;
    for (int64_t u = 0; u < m.mul_in; u++, w += m.stride) {
      V wu[NB];
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) wu[b] = S::load(w + b * L);
      MLPOT_UNROLL
      for (int r = 0; r < R; r++)
        MLPOT_UNROLL
        for (int b = 0; b < NB; b++) sum[r][b] += wu[b] * in[r][u];
    }
  }
  MLPOT_UNROLL
  for (int r = 0; r < R; r++)
    if (r < n_rows)
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) {
        T* p = rows[r].out + c + b * L;
        if (b < NB - 1 || n_lanes == L)
          S::store(p, S::load(p) + sum[r][b] * rows[r].y);
        else
          S::store_first(p, S::load_first(p, n_lanes) + sum[r][b] * rows[r].y, n_lanes);
      }
}

// The same for all channels of the output; rows[r].out points to channel 0.
template <class T>
__attribute__((noinline)) void add_rows(const Matrix<T>* matrices, int n_matrices, int64_t v,
                                        const BlockRow<T>* rows, int n_rows, int64_t mul_out) {
  constexpr int L = Simd<T>::lanes;
  int64_t c = 0;
  for (; c + L < mul_out; c += 2 * L)
    add_tile<T, 2>(matrices, n_matrices, v, rows, n_rows, c,
                   int(std::min<int64_t>(L, mul_out - c - L)));
  if (c < mul_out)
    add_tile<T, 1>(matrices, n_matrices, v, rows, n_rows, c, int(mul_out - c));
}

// A row of both sides of a matrix, for its adjoint.
template <class T>
struct PairOfRows {
  const T *x, *g;
  T y;
};

// sums[u, c ..] = sum over rows of y x[u] g[c ..] for kTileRows channels from first on, of which
// n_u count.
template <class T, int NB>
MLPOT_INLINE void outer_tile(const PairOfRows<T>* rows, int64_t n_rows, int64_t first, int n_u,
                             int64_t c, int n_lanes, T* sums, int64_t stride) {
  using S = Simd<T>;
  using V = typename S::Vector;
  constexpr int L = S::lanes, R = kTileRows;
  V sum[R][NB] = {};
  int64_t at[R];
  for (int u = 0; u < R; u++) at[u] = first + std::min(u, n_u - 1);
  for (int64_t i = 0; i < n_rows; i++) {
    V g[NB];
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) {
      const T* p = rows[i].g + c + b * L;
      g[b] = (b < NB - 1 || n_lanes == L ? S::load(p) : S::load_first(p, n_lanes)) * rows[i].y;
    }
    MLPOT_UNROLL
    for (int u = 0; u < R; u++)
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) sum[u][b] += g[b] * rows[i].x[at[u]];
  }
  MLPOT_UNROLL
  for (int u = 0; u < R; u++)
    if (u < n_u)
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) {
        T* p = sums + u * stride + c + b * L;
        if (b < NB - 1 || n_lanes == L)
          S::store(p, sum[u][b]);
        else
          S::store_first(p, sum[u][b], n_lanes);
      }
}

// sums[u * stride + c] = sum over rows of y x[u] g[c], u < mul_in, c < mul_out.
template <class T>
__attribute__((noinline)) void outer_rows(const PairOfRows<T>* rows, int64_t n_rows,
                                          int64_t mul_in, int64_t mul_out, T* sums,
                                          int64_t stride) {
  constexpr int L = Simd<T>::lanes;
  for (int64_t u = 0; u < mul_in; u += kTileRows) {
    const int n_u = int(std::min<int64_t>(kTileRows, mul_in - u));
    T* to = sums + u * stride;
    int64_t c = 0;
    for (; c + L < mul_out; c += 2 * L)
      outer_tile<T, 2>(rows, n_rows, u, n_u, c, int(std::min<int64_t>(L, mul_out - c - L)), to,
                       stride);
    if (c < mul_out)
      outer_tile<T, 1>(rows, n_rows, u, n_u, c, int(mul_out - c), to, stride);
  }
}

}  // namespace mlpot
