// Loops of the convolution with weights from a table; included once for each precision.
#pragma once

#include <numeric>
#include <vector>

#include "convolution_values.h"
#include "radial_convolution.h"

namespace mlpot {

static_assert(kEdgeBlock <= kEdgesTogether);

// Weights made from a table, a block of edges at a time.
template <class T>
struct TableWeights {
  const RadialTable<T>& table;

  int64_t room() const { return kEdgeBlock * table.stride(); }
  void of(int n_edges, const int64_t* e, T* room, const T** pointers) const {
    table.combine(n_edges, e, room);
    for (int q = 0; q < n_edges; q++) pointers[q] = room + q * table.stride();
  }
};

template <class T>
void radial_convolve(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                     const T* x, const T* y, T* out) {
  convolve_to_receivers<T>(plan, edges, x, y, TableWeights<T>{table}, out);
}

template <class T>
void radial_convolve_x(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                       const T* y, const T* g, T* x_bar) {
  convolve_to_senders<T>(plan, edges, y, TableWeights<T>{table}, g, x_bar);
}

template <class T>
void radial_convolve_edges(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                           const T* x, const T* y, const T* g, T* y_bar, T* h_bar) {
  const EdgeAdjoints<T> adjoints(plan, edges, x, y, g);
  parallel(edges.n_edges, kEdgesOfAChunk, 2 * work<T>(plan, edges), [&](Chunks& chunks) {
    auto room = adjoints.room();
    std::vector<T> w(kEdgeBlock * table.stride()), w_bar(table.stride(), T(0));
    int64_t begin, end, edge[kEdgeBlock];
    while (chunks.next(begin, end))
      for (int64_t at = begin; at < end; at += kEdgeBlock) {
        const int n_edges = std::min<int64_t>(kEdgeBlock, end - at);
        std::iota(edge, edge + n_edges, at);
        if (y_bar) table.combine(n_edges, edge, w.data());
        for (int q = 0; q < n_edges; q++) {
          const int64_t e = edge[q];
          adjoints.of(e, y_bar ? w.data() + q * table.stride() : nullptr, room,
                      y_bar ? y_bar + e * plan.dim_y : nullptr, h_bar ? w_bar.data() : nullptr);
          if (h_bar) table.adjoint_to_h(e, w_bar.data(), h_bar + e * table.n_coefficients);
        }
      }
  });
}

// Edges ordered by their first row, in chunks whose number depends on the sizes alone: each sums
// into rows of its own, which are then added chunk by chunk. So the same bits come out whatever
// the number of threads.
template <class T>
class TableSums {
 public:
  static constexpr int64_t kChunks = 64, kLeastEdges = 64;

  TableSums(const RadialTable<T>& table, int64_t n_edges)
      : table_(table), order_(n_edges), offset_(1, 0) {
    sort();
    const int64_t grain = std::max(kLeastEdges, (n_edges + kChunks - 1) / kChunks);
    for (int64_t begin = 0; begin < n_edges; begin += grain) {
      const int64_t end = std::min(n_edges, begin + grain);
      begin_.push_back(begin);
      const int64_t low = row(order_[begin]), high = row(order_[end - 1]) + table.n_coefficients;
      first_row_.push_back(low);
      offset_.push_back(offset_.back() + (high - low) * table.n_weights);
    }
    begin_.push_back(n_edges);
  }

  // table_bar, with make(e, w_bar) giving the w_bar of an edge; work as for parallel.
  // fetch(e) announces the edge after.
  template <class MakeRoom, class Make, class Fetch>
  void run(int64_t work, const MakeRoom& make_room, const Make& make, const Fetch& fetch,
           T* table_bar) const {
    const int64_t n_chunks = int64_t(begin_.size()) - 1, width = table_.n_weights;
    std::vector<T> sums(offset_.back());
    parallel(n_chunks, 1, work, [&](Chunks& chunks) {
      auto room = make_room();
      std::vector<T> w_bar(kEdgeBlock * table_.stride(), T(0));
      int64_t chunk, end;
      while (chunks.next(chunk, end))
        for (int64_t at = begin_[chunk]; at < begin_[chunk + 1];) {
          const int64_t* e = order_.data() + at;
          const int64_t r = row(*e);
          int n_edges = 0;
          while (n_edges < kEdgeBlock && at < begin_[chunk + 1] && row(e[n_edges]) == r) {
            if (at + 1 < begin_[chunk + 1]) fetch(e[n_edges + 1]);
            make(e[n_edges], room, w_bar.data() + table_.stride() * n_edges);
            n_edges++, at++;
          }
          table_.adjoint_to_table(n_edges, e, w_bar.data(),
                                  sums.data() + offset_[chunk] + (r - first_row_[chunk]) * width);
        }
    });
    add_up(sums, table_bar);
  }

 private:
  int64_t row(int64_t e) const { return table_.rows ? table_.rows[e] : 0; }

  // A counting sort keeps the order of edges with equal rows.
  void sort() {
    std::vector<int64_t> next(table_.n_rows + 1, 0);
    const int64_t n = static_cast<int64_t>(order_.size());
    for (int64_t e = 0; e < n; e++) next[row(e) + 1]++;
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (int64_t e = 0; e < n; e++) order_[next[row(e)]++] = e;
  }

  void add_up(const std::vector<T>& sums, T* table_bar) const {
    const int64_t width = table_.n_weights, n_chunks = int64_t(begin_.size()) - 1;
    parallel(table_.n_rows, 16, (table_.n_rows * width + sums.size()) / Simd<T>::lanes,
             [&](Chunks& chunks) {
               int64_t begin, end;
               while (chunks.next(begin, end)) {
                 std::fill(table_bar + begin * width, table_bar + end * width, T(0));
                 for (int64_t chunk = 0; chunk < n_chunks; chunk++) {
                   const int64_t low = first_row_[chunk];
                   const int64_t high = low + (offset_[chunk + 1] - offset_[chunk]) / width;
                   for (int64_t r = std::max(begin, low); r < std::min(end, high); r++) {
                     const T* from = sums.data() + offset_[chunk] + (r - low) * width;
                     T* to = table_bar + r * width;
                     for (int64_t c = 0; c < width; c++) to[c] += from[c];
                   }
                 }
               }
             });
  }

  const RadialTable<T>& table_;
  std::vector<int64_t> order_, begin_, first_row_, offset_;
};

template <class T>
void radial_convolve_table(const Plan& plan, const Edges& edges, const RadialTable<T>& table,
                           const T* x, const T* y, const T* g, T* table_bar) {
  const EdgeAdjoints<T> adjoints(plan, edges, x, y, g);
  using Room = typename EdgeAdjoints<T>::Room;
  TableSums<T>(table, edges.n_edges)
      .run(
          2 * work<T>(plan, edges), [&] { return adjoints.room(); },
          [&](int64_t e, Room& room, T* w_bar) { adjoints.of(e, nullptr, room, nullptr, w_bar); },
          [&](int64_t e) { adjoints.fetch(e); }, table_bar);
}

template <class T>
int64_t work_of_weights(const RadialTable<T>& table, int64_t n_edges) {
  return n_edges * table.n_coefficients * (table.n_weights / Simd<T>::lanes + 1);
}

template <class T>
void edge_weights(const RadialTable<T>& table, int64_t n_edges, T* w) {
  parallel(n_edges, kEdgesOfAChunk, work_of_weights(table, n_edges), [&](Chunks& chunks) {
    std::vector<T> room(kEdgeBlock * table.stride());
    int64_t begin, end, edge[kEdgeBlock];
    while (chunks.next(begin, end))
      for (int64_t at = begin; at < end; at += kEdgeBlock) {
        const int n = std::min<int64_t>(kEdgeBlock, end - at);
        std::iota(edge, edge + n, at);
        table.combine(n, edge, room.data());
        for (int q = 0; q < n; q++)
          std::copy_n(room.data() + q * table.stride(), table.n_weights,
                      w + edge[q] * table.n_weights);
      }
  });
}

template <class T>
void edge_weights_h(const RadialTable<T>& table, int64_t n_edges, const T* w_bar, T* h_bar) {
  parallel(n_edges, kEdgesOfAChunk, work_of_weights(table, n_edges), [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t e = begin; e < end; e++)
        table.adjoint_to_h(e, w_bar + e * table.n_weights, h_bar + e * table.n_coefficients);
  });
}

template <class T>
void edge_weights_table(const RadialTable<T>& table, int64_t n_edges, const T* w_bar,
                        T* table_bar) {
  TableSums<T>(table, n_edges)
      .run(
          work_of_weights(table, n_edges), [] { return 0; },
          [&](int64_t e, int, T* to) {
            std::copy_n(w_bar + e * table.n_weights, table.n_weights, to);
          },
          [&](int64_t e) { fetch(w_bar + e * table.n_weights, table.n_weights); }, table_bar);
}

#define MLPOT_INSTANTIATE_RADIAL_CONVOLUTION(T)                                                  \
  template void radial_convolve<T>(const Plan&, const Edges&, const RadialTable<T>&, const T*,  \
                                   const T*, T*);                                                \
  template void radial_convolve_x<T>(const Plan&, const Edges&, const RadialTable<T>&,          \
                                     const T*, const T*, T*);                                    \
  template void radial_convolve_edges<T>(const Plan&, const Edges&, const RadialTable<T>&,      \
                                         const T*, const T*, const T*, T*, T*);                  \
  template void radial_convolve_table<T>(const Plan&, const Edges&, const RadialTable<T>&,      \
                                         const T*, const T*, const T*, T*);                      \
  template void edge_weights<T>(const RadialTable<T>&, int64_t, T*);                             \
  template void edge_weights_h<T>(const RadialTable<T>&, int64_t, const T*, T*);                 \
  template void edge_weights_table<T>(const RadialTable<T>&, int64_t, const T*, T*);

}  // namespace mlpot
