// What is fixed about a convolution: its paths, and the coupling coefficients of each.
//
//   out[n, k, c] = sum_{e into n} sum_{i, j} C[i, j, k] w[e, c] x[s(e), i, c] y[e, j]
//
// The matrix M[i, k] = sum_j C[i, j, k] y[j] of an edge has no channel index. It is made once an
// edge, and paths with equal coefficients (those that differ only in parity) share it.
#pragma once

#include <cstdint>
#include <vector>

#include "simd.h"

namespace mlpot {

struct Path {
  int x_offset, x_stride, d1;
  int y_offset, d2;
  int w_offset;
  int out_offset, out_stride, d3;
  int mul;
  int coupling;            // index into Plan::couplings
  bool first_of_coupling;  // no path before this one has the same coupling
};

// Coefficients of one or more paths. A diagonal one (y is a scalar) keeps M[i, i] only.
struct Coupling {
  int y_offset, d1, d2, d3;
  bool diagonal;
  std::vector<double> c;  // (d1, d2, d3)

  double at(int i, int j, int k) const { return c[(i * d2 + j) * d3 + k]; }
  int size() const { return diagonal ? d1 : d1 * d3; }
};

// How the matrices of all couplings are made from y: for each block of y a (d2, width) matrix of
// coefficients, widths padded to whole vectors.
template <class T>
struct Matrices {
  struct Group {
    int y_offset, d2, begin, width;
    int64_t coefficients;
  };
  std::vector<Group> groups;
  std::vector<T> coefficients;
  std::vector<int> begin;  // where the matrix of each coupling starts
  int size = 0;

  MLPOT_INLINE void make(const T* y, T* m) const {
    using S = Simd<T>;
    for (const Group& g : groups) {
      const T* c = coefficients.data() + g.coefficients;
      for (int q = 0; q < g.width; q += S::lanes) {
        typename S::Vector sum = S::load(c + q) * y[g.y_offset];
        for (int j = 1; j < g.d2; j++) sum += S::load(c + j * g.width + q) * y[g.y_offset + j];
        S::store(m + g.begin + q, sum);
      }
    }
  }
};

// One term of the adjoint to y: y_bar[j] += c * S[m], with S[i, k] = sum_c w x[i] g[k].
template <class T>
struct Term {
  int m;
  T c;
};

template <class T>
struct Tables {
  Matrices<T> straight;    // M[i * d3 + k]
  Matrices<T> transposed;  // M[k * d1 + i]
  std::vector<Term<T>> terms;
  std::vector<int> term_begin;  // (dim_y + 1)
};

struct Plan {
  int dim_x, dim_y, n_weights, dim_out;
  std::vector<Path> paths;
  std::vector<Coupling> couplings;
  Tables<float> tables_float;
  Tables<double> tables_double;
  int64_t operations = 0;  // multiplications of one edge, over all channels

  // paths: ten integers each (x_offset, x_stride, d1, y_offset, d2, w_offset, out_offset,
  // out_stride, d3, mul); coefficients: the (d1, d2, d3) arrays one after the other.
  Plan(int dim_x, int dim_y, int n_weights, int dim_out, const std::vector<int>& paths,
       const std::vector<double>& coefficients);

  template <class T>
  const Tables<T>& tables() const;
};

template <>
inline const Tables<float>& Plan::tables<float>() const {
  return tables_float;
}
template <>
inline const Tables<double>& Plan::tables<double>() const {
  return tables_double;
}

}  // namespace mlpot
