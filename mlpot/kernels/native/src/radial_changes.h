// How the maps of a convolution with weights from a table change with their arguments: for each of
// several vectors the sum over some arguments of the map with this argument replaced by its change.
// The values of the map itself (`values`, null where they are not wanted) take the same pass.
#pragma once

#include "radial_convolution.h"

namespace mlpot {

// Changes of the arguments, null where there is none; each array holds one after the other for
// each of n_vectors.
template <class T>
struct Changes {
  const T *x, *y, *h, *g;
  int64_t n_vectors;
};

// out (n_vectors, n_nodes, dim_out), from changes of x, y and h
template <class T>
void radial_changes_out(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                        const T* x, const T* y, const Changes<T>& changes, T* out, T* values);

// x_bar (n_vectors, n_nodes, dim_x), from changes of y, h and g
template <class T>
void radial_changes_x(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                      const T* y, const T* g, const Changes<T>& changes, T* x_bar, T* values);

// y_bar (n_vectors, n_edges, dim_y), from changes of x, h and g, and
// h_bar (n_vectors, n_edges, n_coefficients), from changes of x, y and g
template <class T>
void radial_changes_edges(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                          const T* x, const T* y, const T* g, const Changes<T>& changes, T* y_bar,
                          T* h_bar, T* y_values, T* h_values);

}  // namespace mlpot
