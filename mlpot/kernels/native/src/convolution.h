// Values of the convolution family. Each map is the adjoint of T = <g, out> to one argument.
#pragma once

#include <cstdint>

#include "convolution_plan.h"

namespace mlpot {

// Edges sorted by receiver: edges of node n are receiver_ptr[n] .. receiver_ptr[n + 1] - 1.
// sender_perm lists edges by sender, sender_ptr its offsets.
struct Edges {
  int64_t n_nodes, n_edges;
  const int32_t *senders, *receivers, *receiver_ptr, *sender_perm, *sender_ptr;
};

// Throws std::out_of_range if an index points outside its array.
void check(const Edges& edges);

// out (n_nodes, dim_out) = conv(x, y, w)
template <class T>
void convolve(const Plan& plan, const Edges& edges, const T* x, const T* y, const T* w, T* out);

// x_bar (n_nodes, dim_x) = conv_x(y, w, g)
template <class T>
void convolve_x(const Plan& plan, const Edges& edges, const T* y, const T* w, const T* g, T* x_bar);

// y_bar (n_edges, dim_y) = conv_y(x, w, g) and w_bar (n_edges, n_weights) = conv_w(x, y, g);
// either may be null, and so may w without y_bar and y without w_bar.
template <class T>
void convolve_edges(const Plan& plan, const Edges& edges, const T* x, const T* y, const T* w,
                    const T* g, T* y_bar, T* w_bar);

}  // namespace mlpot
