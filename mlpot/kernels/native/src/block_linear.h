// Linear maps between blocks of node features, weighted by scalars of the node:
//
//   out[n, k, c] += factor sum_{v, u} y[n, v] W[u, v, c] x[n, k, u]         for each path
//
// Element (k, u) of a block lies in column offset + k * mul + u. Without y (dim_y = 0) there is one
// v with y = 1. Each map is the adjoint of T = <g, out> to one argument.
#pragma once

#include <cstdint>
#include <vector>

namespace mlpot {

struct LinearPath {
  int x_offset, mul_in, y_offset, n_y, w_offset, out_offset, mul_out, d;
  double factor;
};

struct LinearPlan {
  int dim_x, dim_y, n_weights, dim_out;
  std::vector<LinearPath> paths;

  // integers: eight for each path, in the order of LinearPath. Paths of one output block have equal
  // sizes.
  LinearPlan(int dim_x, int dim_y, int n_weights, int dim_out, const std::vector<int>& integers,
             const std::vector<double>& factors);
};

template <class T>
void linear_out(const LinearPlan& plan, int64_t n, const T* x, const T* y, const T* w, T* out);

template <class T>
void linear_x(const LinearPlan& plan, int64_t n, const T* y, const T* w, const T* g, T* x_bar);

template <class T>
void linear_y(const LinearPlan& plan, int64_t n, const T* x, const T* w, const T* g, T* y_bar);

template <class T>
void linear_w(const LinearPlan& plan, int64_t n, const T* x, const T* y, const T* g, T* w_bar);

}  // namespace mlpot
