// Values of the convolution family whose edge weights are combinations of rows of a table.
#pragma once

#include "convolution.h"
#include "radial_table.h"

namespace mlpot {

// Throws std::out_of_range if the rows of an edge reach outside the table.
void check_rows(const int32_t* rows, int64_t n_edges, int64_t n_coefficients, int64_t n_rows);

// out (n_nodes, dim_out)
template <class T>
void radial_convolve(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                     const T* x, const T* y, T* out);

// x_bar (n_nodes, dim_x)
template <class T>
void radial_convolve_x(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                       const T* y, const T* g, T* x_bar);

// y_bar (n_edges, dim_y) and h_bar (n_edges, n_coefficients); either may be null, and so may y
// without h_bar and table.h without y_bar.
template <class T>
void radial_convolve_edges(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                           const T* x, const T* y, const T* g, T* y_bar, T* h_bar);

// table_bar (n_rows, n_weights); table.table is not read.
template <class T>
void radial_convolve_table(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                           const T* x, const T* y, const T* g, T* table_bar);

// w (n_edges, n_weights), and its adjoints for a given w_bar (n_edges, n_weights).
template <class T>
void edge_weights(const RadialTable<T>& table, int64_t n_edges, T* w);
template <class T>
void edge_weights_h(const RadialTable<T>& table, int64_t n_edges, const T* w_bar, T* h_bar);
template <class T>
void edge_weights_table(const RadialTable<T>& table, int64_t n_edges, const T* w_bar,
                        T* table_bar);

}  // namespace mlpot
