// Loops of radial_changes.h; included once for each precision.
#pragma once

#include <numeric>
#include <vector>

#include "convolution_changes.h"
#include "convolution_values.h"
#include "radial_changes.h"

namespace mlpot {

// Vectors that share the weights of an edge, so that those of all fit the second-level cache.
constexpr int64_t kVectorsTogether = 4;

// Weights of a block of edges and their changes, made together: room[s][q * stride()] are those of
// edge q, s = 0 of the values and s = 1 + v of the changes of vector v.
template <class T>
class ChangedWeights {
 public:
  ChangedWeights(const RadialTable<T>& table, const T* d_h, int64_t n_vectors, int64_t n_edges)
      : table_(table), n_sets_(d_h ? 1 + n_vectors : 1) {
    h_[0] = table.h;
    for (int64_t v = 1; v < n_sets_; v++)
      h_[v] = d_h + (v - 1) * n_edges * table.n_coefficients;
  }
  int64_t room() const { return n_sets_ * kEdgeBlock * table_.stride(); }
  void make(int n_edges, const int64_t* e, T* room) const {
    T* to[1 + kVectorsTogether];
    for (int64_t s = 0; s < n_sets_; s++) to[s] = at(room, s, 0);
    table_.combine_sets(n_edges, e, int(n_sets_), h_, to);
  }
  T* at(T* room, int64_t set, int q) const {
    return room + (set * kEdgeBlock + q) * table_.stride();
  }

 private:
  const RadialTable<T>& table_;
  const int64_t n_sets_;
  const T* h_[1 + kVectorsTogether];
};

template <class T>
struct ChangedStep {
  Step<T> plain;
  AddChanged<T> add;
};

template <class T>
std::vector<SafeRows<T>> rows_of_vectors(const T* base, int64_t n_vectors, int64_t n, int64_t width) {
  std::vector<SafeRows<T>> rows;
  for (int64_t v = 0; base && v < n_vectors; v++) rows.emplace_back(base + v * n * width, n, width);
  return rows;
}

// Compare convolve_nodes; d_in, dy and d_h are null where nothing changes.
template <class T>
void changed_nodes(const Plan& plan, const Edges& edges, const Matrices<T>& matrices,
                   bool transposed, const T* in, const T* d_in, int64_t dim_in, const T* y,
                   const T* dy, const RadialTable<T>& table, const T* d_h, int64_t n_vectors,
                   T* out, int64_t dim_out, T* values) {
  const int32_t* ptr = transposed ? edges.sender_ptr : edges.receiver_ptr;
  const int32_t* perm = transposed ? edges.sender_perm : nullptr;
  const int32_t* other = transposed ? edges.receivers : edges.senders;
  std::vector<ChangedStep<T>> steps;
  for (const Step<T>& s : steps_of<T>(plan, transposed)) {
    const Path& p = plan.paths[steps.size()];
    const bool diagonal = plan.couplings[p.coupling].diagonal;
    steps.push_back({s, changed_kernels_of<T>(s.shape.d_in, s.shape.d_out, diagonal).add});
  }
  const SafeRows<T> rows(in, edges.n_nodes, dim_in);
  const auto d_rows = rows_of_vectors<T>(d_in, n_vectors, edges.n_nodes, dim_in);
  const ChangedWeights<T> weights(table, d_h, n_vectors, edges.n_edges);
  const bool alone = bool(d_in) + bool(dy) + bool(d_h) == 1;
  const std::vector<T> zero(std::max(dim_in, table.stride()) + Simd<T>::lanes);
  const int64_t one = work<T>(plan, edges);
  parallel(edges.n_nodes, nodes_of_a_chunk(edges),
           ((alone ? 1 : 2) * n_vectors + bool(values)) * one,
           [&](Chunks& chunks) {
    const int64_t step = matrices.size;
    std::vector<T> m(kEdgeBlock * step), d_m(kEdgeBlock * step), room(weights.room());
    int64_t edge[kEdgeBlock];
    const T *x[kEdgeBlock], *dx[kEdgeBlock], *w[kEdgeBlock], *d_w[kEdgeBlock];
    int64_t begin, end;
    while (chunks.next(begin, end)) {
      for (int64_t v = 0; v < n_vectors; v++)
        std::fill(out + (v * edges.n_nodes + begin) * dim_out,
                  out + (v * edges.n_nodes + end) * dim_out, T(0));
      if (values) std::fill(values + begin * dim_out, values + end * dim_out, T(0));
      for (int64_t n = begin; n < end; n++)
        for (int32_t at = ptr[n]; at < ptr[n + 1]; at += kEdgeBlock) {
          const int n_edges = std::min(kEdgeBlock, ptr[n + 1] - at);
          for (int q = 0; q < n_edges; q++) {
            edge[q] = perm ? perm[at + q] : at + q;
            if (values || !alone || !d_in) rows.fetch(other[edge[q]]);
            matrices.make(y + edge[q] * plan.dim_y, m.data() + q * step);
          }
          weights.make(n_edges, edge, room.data());
          if (values)
            for (const ChangedStep<T>& changed : steps) {
              const Step<T>& s = changed.plain;
              for (int q = 0; q < n_edges; q++) {
                x[q] = rows.row(other[edge[q]]) + s.in_offset;
                w[q] = weights.at(room.data(), 0, q) + s.w_offset;
              }
              s.add(s.shape, n_edges, x, w, m.data() + s.m, step,
                    values + n * dim_out + s.out_offset);
            }
          for (int64_t v = 0; v < n_vectors; v++) {
            T* node = out + (v * edges.n_nodes + n) * dim_out;
            if (dy)
              for (int q = 0; q < n_edges; q++)
                matrices.make(dy + (v * edges.n_edges + edge[q]) * plan.dim_y,
                              d_m.data() + q * step);
            for (const ChangedStep<T>& changed : steps) {
              const Step<T>& s = changed.plain;
              for (int q = 0; q < n_edges; q++) {
                const int32_t from = other[edge[q]];
                x[q] = rows.row(from) + s.in_offset;
                dx[q] = d_in ? d_rows[v].row(from) + s.in_offset : zero.data();
                w[q] = weights.at(room.data(), 0, q) + s.w_offset;
                d_w[q] = d_h ? weights.at(room.data(), 1 + v, q) + s.w_offset : zero.data();
              }
              if (alone)
                s.add(s.shape, n_edges, d_in ? dx : x, d_h ? d_w : w,
                      (dy ? d_m : m).data() + s.m, step, node + s.out_offset);
              else
                changed.add(s.shape, n_edges,
                            {x, dx, w, d_w, m.data() + s.m, d_m.data() + s.m, step},
                            node + s.out_offset);
            }
          }
        }
    }
  });
}

// Vectors in groups: those from `first` on.
template <class T>
Changes<T> from(const Changes<T>& all, int64_t first, const Plan& plan, const Edges& edges,
                int64_t n_coefficients) {
  const auto at = [&](const T* base, int64_t size) { return base ? base + first * size : nullptr; };
  return {at(all.x, edges.n_nodes * plan.dim_x), at(all.y, edges.n_edges * plan.dim_y),
          at(all.h, edges.n_edges * n_coefficients), at(all.g, edges.n_nodes * plan.dim_out),
          std::min(kVectorsTogether, all.n_vectors - first)};
}

template <class T>
void radial_changes_out(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                        const T* x, const T* y, const Changes<T>& changes, T* out, T* values) {
  for (int64_t first = 0; first < changes.n_vectors; first += kVectorsTogether) {
    const Changes<T> c = from(changes, first, plan, edges, table.n_coefficients);
    changed_nodes<T>(plan, edges, plan.tables<T>().straight, false, x, c.x, plan.dim_x, y, c.y,
                     table, c.h, c.n_vectors, out + first * edges.n_nodes * plan.dim_out,
                     plan.dim_out, first == 0 ? values : nullptr);
  }
}

template <class T>
void radial_changes_x(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                      const T* y, const T* g, const Changes<T>& changes, T* x_bar, T* values) {
  for (int64_t first = 0; first < changes.n_vectors; first += kVectorsTogether) {
    const Changes<T> c = from(changes, first, plan, edges, table.n_coefficients);
    changed_nodes<T>(plan, edges, plan.tables<T>().transposed, true, g, c.g, plan.dim_out, y, c.y,
                     table, c.h, c.n_vectors, x_bar + first * edges.n_nodes * plan.dim_x,
                     plan.dim_x, first == 0 ? values : nullptr);
  }
}

template <class T>
struct ChangedAdjointStep {
  AdjointShape shape;
  Adjoint<T> plain;
  ChangedAdjoints<T> changed;
  int x_offset, w_offset, out_offset, m;
};

template <class T>
void changed_edges(const Plan& plan, const Edges& edges, const RadialTable<T>& table, const T* x,
                   const T* y, const T* g, const Changes<T>& changes, T* y_bar, T* h_bar,
                   T* y_values, T* h_values) {
  const Tables<T>& tables = plan.tables<T>();
  std::vector<ChangedAdjointStep<T>> steps;
  for (const Path& p : plan.paths) {
    const bool diagonal = plan.couplings[p.coupling].diagonal;
    steps.push_back({{p.d1, p.d3, p.x_stride, p.out_stride, p.mul, p.first_of_coupling},
                     kernels_of<T>(p.d1, p.d3, diagonal).adjoint.to_both,
                     changed_kernels_of<T>(p.d1, p.d3, diagonal).adjoint, p.x_offset, p.w_offset,
                     p.out_offset, tables.straight.begin[p.coupling]});
  }
  const int64_t n_vectors = changes.n_vectors, width = table.stride(), step = tables.straight.size;
  const SafeRows<T> xs(x, edges.n_nodes, plan.dim_x), gs(g, edges.n_nodes, plan.dim_out);
  const auto d_xs = rows_of_vectors<T>(changes.x, n_vectors, edges.n_nodes, plan.dim_x);
  const auto d_gs = rows_of_vectors<T>(changes.g, n_vectors, edges.n_nodes, plan.dim_out);
  const ChangedWeights<T> weights(table, changes.h, n_vectors, edges.n_edges);
  const bool on_edges = changes.y || changes.h;
  const bool alone = !on_edges && (!changes.x || !changes.g);
  const std::vector<T> zero(std::max<int64_t>({plan.dim_x, plan.dim_out, width}) +
                            Simd<T>::lanes);
  parallel(edges.n_edges, kEdgesOfAChunk, 4 * n_vectors * work<T>(plan, edges),
           [&](Chunks& chunks) {
    std::vector<T> m(step), d_m(step), s(step * Simd<T>::lanes), w_bar(width), room(weights.room());
    int64_t begin, end, edge[kEdgeBlock];
    // Without rows edges share the whole table, so they are taken together.
    const int64_t block = table.rows ? 1 : kEdgeBlock;
    while (chunks.next(begin, end))
      for (int64_t at = begin; at < end; at += block) {
        const int n_edges = int(std::min(block, end - at));
        std::iota(edge, edge + n_edges, at);
        weights.make(n_edges, edge, room.data());
        for (int q = 0; q < n_edges; q++) {
          const int64_t e = edge[q];
          const int32_t from = edges.senders[e], to = edges.receivers[e];
          tables.straight.make(y + e * plan.dim_y, m.data());
          const T* w = weights.at(room.data(), 0, q);
          if (y_values) {
            for (const ChangedAdjointStep<T>& p : steps)
              p.plain(p.shape, {xs.row(from) + p.x_offset, w + p.w_offset,
                                gs.row(to) + p.out_offset, m.data() + p.m,
                                w_bar.data() + p.w_offset,
                                s.data() + int64_t(p.m) * Simd<T>::lanes});
            adjoint_to_y(tables, s.data(), y_values + e * plan.dim_y, plan.dim_y);
            table.adjoint_to_h(e, w_bar.data(), h_values + e * table.n_coefficients);
          }
          for (int64_t v = 0; v < n_vectors; v++) {
            const int64_t row = v * edges.n_edges + e;
            if (changes.y) tables.straight.make(changes.y + row * plan.dim_y, d_m.data());
            const T* d_x = changes.x ? d_xs[v].row(from) : zero.data();
            const T* d_g = changes.g ? d_gs[v].row(to) : zero.data();
            const T* d_w = changes.h ? weights.at(room.data(), 1 + v, q) : zero.data();
            const T *xe = xs.row(from), *ge = gs.row(to);
            for (const ChangedAdjointStep<T>& p : steps) {
              const T* me = m.data() + p.m;
              T *we = w_bar.data() + p.w_offset, *se = s.data() + int64_t(p.m) * Simd<T>::lanes;
              if (alone)
                p.plain(p.shape, {(changes.x ? d_x : xe) + p.x_offset, w + p.w_offset,
                                  (changes.g ? d_g : ge) + p.out_offset, me, we, se});
              else
                (on_edges ? p.changed.all : p.changed.nodes)(
                    p.shape, {xe + p.x_offset, d_x + p.x_offset, w + p.w_offset, d_w + p.w_offset,
                              ge + p.out_offset, d_g + p.out_offset, me, d_m.data() + p.m, we, se});
            }
            adjoint_to_y(tables, s.data(), y_bar + row * plan.dim_y, plan.dim_y);
            table.adjoint_to_h(e, w_bar.data(), h_bar + row * table.n_coefficients);
          }
        }
      }
  });
}

template <class T>
void radial_changes_edges(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                          const T* x, const T* y, const T* g, const Changes<T>& changes, T* y_bar,
                          T* h_bar, T* y_values, T* h_values) {
  for (int64_t first = 0; first < changes.n_vectors; first += kVectorsTogether) {
    const Changes<T> c = from(changes, first, plan, edges, table.n_coefficients);
    changed_edges<T>(plan, edges, table, x, y, g, c, y_bar + first * edges.n_edges * plan.dim_y,
                     h_bar + first * edges.n_edges * table.n_coefficients,
                     first == 0 ? y_values : nullptr, first == 0 ? h_values : nullptr);
  }
}

#define MLPOT_INSTANTIATE_RADIAL_CHANGES(T)                                                       \
  template void radial_changes_out<T>(const Plan&, const Edges&, const RadialTable<T>&, const T*, \
                                      const T*, const Changes<T>&, T*, T*);                       \
  template void radial_changes_x<T>(const Plan&, const Edges&, const RadialTable<T>&, const T*,   \
                                    const T*, const Changes<T>&, T*, T*);                         \
  template void radial_changes_edges<T>(const Plan&, const Edges&, const RadialTable<T>&,         \
                                        const T*, const T*, const T*, const Changes<T>&, T*, T*,  \
                                        T*, T*);

}  // namespace mlpot
