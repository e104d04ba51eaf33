// Loops over nodes and edges of a convolution; included once for each precision.
#pragma once

#include <algorithm>
#include <vector>

#include "convolution.h"
#include "convolution_kernels.h"
#include "threads.h"

namespace mlpot {

// Edges of a node are taken in blocks, so that a path's accumulators stay in registers over a
// block while its rows are in the first-level cache.
constexpr int kEdgeBlock = 8;
constexpr int64_t kEdgesOfAChunk = 64;

// Rows of a matrix that may be read up to one vector beyond their end: the last ones, where that
// would leave the array, are copies with room behind them.
template <class T>
class SafeRows {
 public:
  SafeRows(const T* base, int64_t n_rows, int64_t width) : base_(base), width_(width) {
    constexpr int64_t L = Simd<T>::lanes;
    if (base == nullptr || width == 0) return;
    first_copy_ = std::max<int64_t>(0, n_rows - L / width - 1);
    copies_.assign((n_rows - first_copy_) * width + L, T(0));
    std::copy(base + first_copy_ * width, base + n_rows * width, copies_.begin());
  }
  void fetch(int64_t r) const { mlpot::fetch(row(r), width_); }
  const T* row(int64_t r) const {
    return r < first_copy_ ? base_ + r * width_ : copies_.data() + (r - first_copy_) * width_;
  }

 private:
  const T* base_;
  int64_t width_, first_copy_ = 0;
  std::vector<T> copies_;
};

// A path as the kernels of one direction take it.
template <class T>
struct Step {
  Shape shape;
  AddEdges<T> add;
  int in_offset, w_offset, out_offset, m;
};

template <class T>
std::vector<Step<T>> steps_of(const Plan& plan, bool transposed) {
  const Tables<T>& tables = plan.tables<T>();
  std::vector<Step<T>> steps;
  for (const Path& p : plan.paths) {
    const bool diagonal = plan.couplings[p.coupling].diagonal;
    if (transposed)
      steps.push_back({{p.d3, p.d1, p.out_stride, p.x_stride, p.mul},
                       kernels_of<T>(p.d3, p.d1, diagonal).add, p.out_offset, p.w_offset,
                       p.x_offset, tables.transposed.begin[p.coupling]});
    else
      steps.push_back({{p.d1, p.d3, p.x_stride, p.out_stride, p.mul},
                       kernels_of<T>(p.d1, p.d3, diagonal).add, p.x_offset, p.w_offset,
                       p.out_offset, tables.straight.begin[p.coupling]});
  }
  return steps;
}

inline int64_t nodes_of_a_chunk(const Edges& edges) {
  return std::max<int64_t>(1, kEdgesOfAChunk * edges.n_nodes / std::max<int64_t>(1, edges.n_edges));
}

template <class T>
int64_t work(const Plan& plan, const Edges& edges) {
  return edges.n_edges * (plan.operations / Simd<T>::lanes + 1);
}

// Weights that are given, one row an edge.
template <class T>
struct GivenWeights {
  SafeRows<T> rows;

  // Room that a thread needs for the weights of a block of edges.
  int64_t room() const { return 0; }
  // pointers[q] = weights of edge e[q].
  void of(int n_edges, const int64_t* e, T*, const T** pointers) const {
    for (int q = 0; q < n_edges; q++) pointers[q] = rows.row(e[q]);
  }
};

// out[n] = sum over the edges of node n of what the steps make of in[node at the other end].
// perm, null for the identity, lists the edges in the order of ptr.
template <class T, class Weights>
void convolve_nodes(const Plan& plan, const Edges& edges, const Matrices<T>& matrices,
                    const std::vector<Step<T>>& steps, const int32_t* ptr, const int32_t* perm,
                    const int32_t* other, const SafeRows<T>& in, const T* y, const Weights& w,
                    T* out, int64_t dim_out) {
  parallel(edges.n_nodes, nodes_of_a_chunk(edges), work<T>(plan, edges), [&](Chunks& chunks) {
    std::vector<T> m(int64_t(kEdgeBlock) * matrices.size), room(w.room());
    int64_t edge[kEdgeBlock];
    const T *rows[kEdgeBlock], *weights[kEdgeBlock];
    const T *step_rows[kEdgeBlock], *step_weights[kEdgeBlock];
    int64_t begin, end;
    while (chunks.next(begin, end)) {
      std::fill(out + begin * dim_out, out + end * dim_out, T(0));
      for (int64_t n = begin; n < end; n++) {
        T* node = out + n * dim_out;
        for (int32_t at = ptr[n]; at < ptr[n + 1]; at += kEdgeBlock) {
          const int n_edges = std::min(kEdgeBlock, ptr[n + 1] - at);
          for (int q = 0; q < n_edges; q++) {
            edge[q] = perm ? perm[at + q] : at + q;
            rows[q] = in.row(other[edge[q]]);
            in.fetch(other[edge[q]]);
            matrices.make(y + edge[q] * plan.dim_y, m.data() + q * matrices.size);
          }
          w.of(n_edges, edge, room.data(), weights);
          for (const Step<T>& s : steps) {
            for (int q = 0; q < n_edges; q++) {
              step_rows[q] = rows[q] + s.in_offset;
              step_weights[q] = weights[q] + s.w_offset;
            }
            s.add(s.shape, n_edges, step_rows, step_weights, m.data() + s.m, matrices.size,
                  node + s.out_offset);
          }
        }
      }
    }
  });
}

template <class T, class Weights>
void convolve_to_receivers(const Plan& plan, const Edges& edges, const T* x, const T* y,
                           const Weights& w, T* out) {
  const SafeRows<T> in(x, edges.n_nodes, plan.dim_x);
  convolve_nodes<T>(plan, edges, plan.tables<T>().straight, steps_of<T>(plan, false),
                    edges.receiver_ptr, nullptr, edges.senders, in, y, w, out, plan.dim_out);
}

template <class T, class Weights>
void convolve_to_senders(const Plan& plan, const Edges& edges, const T* y, const Weights& w,
                         const T* g, T* x_bar) {
  const SafeRows<T> in(g, edges.n_nodes, plan.dim_out);
  convolve_nodes<T>(plan, edges, plan.tables<T>().transposed, steps_of<T>(plan, true),
                    edges.sender_ptr, edges.sender_perm, edges.receivers, in, y, w, x_bar,
                    plan.dim_x);
}

template <class T>
void convolve(const Plan& plan, const Edges& edges, const T* x, const T* y, const T* w, T* out) {
  const GivenWeights<T> weights{{w, edges.n_edges, plan.n_weights}};
  convolve_to_receivers<T>(plan, edges, x, y, weights, out);
}

template <class T>
void convolve_x(const Plan& plan, const Edges& edges, const T* y, const T* w, const T* g,
                T* x_bar) {
  const GivenWeights<T> weights{{w, edges.n_edges, plan.n_weights}};
  convolve_to_senders<T>(plan, edges, y, weights, g, x_bar);
}

template <class T>
struct AdjointStep {
  AdjointShape shape;
  Adjoints<T> kernels;
  int x_offset, w_offset, out_offset, m;
};

// y_bar[j] = sum_ik C[i, j, k] s[i, k], all couplings; the lanes of s are added up last.
template <class T>
MLPOT_INLINE void adjoint_to_y(const Tables<T>& tables, const T* s, T* y_bar, int dim_y) {
  using S = Simd<T>;
  constexpr int kSums = 4;  // independent sums hide the latency of an addition
  for (int j = 0; j < dim_y; j++) {
    typename S::Vector sum[kSums] = {};
    int t = tables.term_begin[j];
    const int end = tables.term_begin[j + 1];
    const auto term = [&](int at) {
      return S::load(s + int64_t(tables.terms[at].m) * S::lanes) * tables.terms[at].c;
    };
    for (; t + kSums <= end; t += kSums)
      for (int q = 0; q < kSums; q++) sum[q] += term(t + q);
    for (; t < end; t++) sum[0] += term(t);
    y_bar[j] = S::sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  }
}

// The adjoints of one edge after the other.
template <class T>
class EdgeAdjoints {
 public:
  EdgeAdjoints(const Plan& plan, const Edges& edges, const T* x, const T* y, const T* g)
      : plan_(plan),
        edges_(edges),
        tables_(plan.tables<T>()),
        x_(x, edges.n_nodes, plan.dim_x),
        g_(g, edges.n_nodes, plan.dim_out),
        y_(y) {
    for (const Path& p : plan.paths)
      steps_.push_back({{p.d1, p.d3, p.x_stride, p.out_stride, p.mul, p.first_of_coupling},
                        kernels_of<T>(p.d1, p.d3, plan.couplings[p.coupling].diagonal).adjoint,
                        p.x_offset, p.w_offset, p.out_offset,
                        tables_.straight.begin[p.coupling]});
  }

  // Memory of a thread.
  struct Room {
    std::vector<T> m, s, w_bar;
  };
  Room room() const {
    return {std::vector<T>(tables_.straight.size),
            std::vector<T>(tables_.straight.size * Simd<T>::lanes), std::vector<T>(plan_.n_weights)};
  }

  // Asks for the features of an edge.
  void fetch(int64_t e) const {
    x_.fetch(edges_.senders[e]);
    g_.fetch(edges_.receivers[e]);
  }

  // y_bar (dim_y) and w_bar (n_weights) of edge e; either may be null, w too without y_bar.
  void of(int64_t e, const T* w, Room& room, T* y_bar, T* w_bar) const {
    const T *x = x_.row(edges_.senders[e]), *g = g_.row(edges_.receivers[e]);
    if (w_bar) tables_.straight.make(y_ + e * plan_.dim_y, room.m.data());
    T* to = w_bar ? w_bar : room.w_bar.data();
    for (const AdjointStep<T>& step : steps_)
      (y_bar ? step.kernels.to_both : step.kernels.to_w)(
          step.shape, {x + step.x_offset, w ? w + step.w_offset : nullptr, g + step.out_offset,
                       room.m.data() + step.m, to + step.w_offset,
                       room.s.data() + int64_t(step.m) * Simd<T>::lanes});
    if (y_bar) adjoint_to_y(tables_, room.s.data(), y_bar, plan_.dim_y);
  }

 private:
  const Plan& plan_;
  const Edges& edges_;
  const Tables<T>& tables_;
  const SafeRows<T> x_, g_;
  const T* y_;
  std::vector<AdjointStep<T>> steps_;
};

template <class T>
void convolve_edges(const Plan& plan, const Edges& edges, const T* x, const T* y, const T* w,
                    const T* g, T* y_bar, T* w_bar) {
  const EdgeAdjoints<T> adjoints(plan, edges, x, y, g);
  const SafeRows<T> ws(w, edges.n_edges, plan.n_weights);
  parallel(edges.n_edges, kEdgesOfAChunk, 2 * work<T>(plan, edges), [&](Chunks& chunks) {
    auto room = adjoints.room();
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t e = begin; e < end; e++)
        adjoints.of(e, w ? ws.row(e) : nullptr, room, y_bar ? y_bar + e * plan.dim_y : nullptr,
                    w_bar ? w_bar + e * plan.n_weights : nullptr);
  });
}

#define MLPOT_INSTANTIATE_CONVOLUTION(T)                                                        \
  template void convolve<T>(const Plan&, const Edges&, const T*, const T*, const T*, T*);       \
  template void convolve_x<T>(const Plan&, const Edges&, const T*, const T*, const T*, T*);     \
  template void convolve_edges<T>(const Plan&, const Edges&, const T*, const T*, const T*,      \
                                  const T*, T*, T*);

}  // namespace mlpot
