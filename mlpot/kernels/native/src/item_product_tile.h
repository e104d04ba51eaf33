// The inner loops of a product of items: as many items at a time as a vector has lanes.
//
// Operands lie in lanes (one vector for each column), so the loops know nothing of layouts and
// have no tails. Channels are taken in chunks small enough for the first-level cache:
// forward  products x y -> rows (components of all paths) -> weights -> output;
// backward weights and cotangent -> rows -> products' cotangents -> x or y.
#pragma once

#include <algorithm>
#include <vector>

#include "item_product_plan.h"
#include "scratch.h"
#include "simd.h"
#include "transpose.h"

namespace mlpot {

template <class T, bool SHARED>
class ItemTile {
  using S = Simd<T>;
  using V = typename S::Vector;
  static constexpr int N = S::lanes, B = 4;
  static constexpr int kVectorsOfAChunk = 384, kLongestChunk = 64;

 public:
  ItemTile(const ItemPlan& plan, ItemMap map, const T* x, const T* y, const T* w, const T* g,
           T* result)
      : plan_(plan), map_(map), x_(x), y_(y), w_(w), g_(g), result_(result) {
    width_ = map == ItemMap::x   ? plan.dim_x
             : map == ItemMap::y ? plan.dim_y
             : map == ItemMap::w ? 0
                                 : plan.dim_out;
    to_.resize(int64_t(width_) * N);
    xs_.resize(x ? int64_t(plan.dim_x) * N : 0);
    ys_.resize(y ? int64_t(plan.dim_y) * N : 0);
    gs_.resize(g ? int64_t(plan.dim_out) * N : 0);
  }

  // Items first .. first + n - 1; adjoints to shared weights are added to w_bar.
  void run(int64_t first, int n, T* w_bar) {
    first_ = first, n_ = n, w_bar_ = w_bar;
    if (x_) rows_to_lanes(x_ + first * plan_.dim_x, plan_.dim_x, n, plan_.dim_x, xs_.data());
    if (y_) rows_to_lanes(y_ + first * plan_.dim_y, plan_.dim_y, n, plan_.dim_y, ys_.data());
    if (g_) rows_to_lanes(g_ + first * plan_.dim_out, plan_.dim_out, n, plan_.dim_out, gs_.data());
    std::fill_n(to_.data(), int64_t(width_) * N, T(0));
    for (const ItemGroup& group : plan_.groups) run_group(group);
    if (width_) lanes_to_rows(to_.data(), width_, n, width_, result_ + first * width_);
  }

 private:
  static MLPOT_INLINE int64_t at(const ItemBlock& b, int component, int column) {
    return int64_t(b.offset + component * b.stride + column) * N;
  }

  void run_group(const ItemGroup& group) {
    const int channels = group.channels();
    int chunk = kVectorsOfAChunk / std::max(1, group.rows) / B * B;
    chunk = std::min(std::max(chunk, B), kLongestChunk);
    chunk_ = chunk;
    rows_.resize(int64_t(group.rows) * chunk * N);
    products_.resize(int64_t(group.x.dim) * group.y.dim * B * N);
    if (map_ == ItemMap::w && SHARED) gather_matrix_rows(group);
    for (int q = 0; q < channels; q += chunk) {
      const int n = std::min(chunk, channels - q);
      if (map_ == ItemMap::out || map_ == ItemMap::w) {
        int c = 0;
        for (; c + B <= n; c += B) make_rows<B>(group, q + c, c);
        for (; c < n; c++) make_rows<1>(group, q + c, c);
        for (const ItemPath& p : group.paths)
          map_ == ItemMap::out ? add_to_output(p, q, n) : adjoint_to_weights(p, q, n);
      } else {
        for (const ItemPath& p : group.paths) rows_of_cotangent(p, q, n);
        int c = 0;
        for (; c + B <= n; c += B) spread_rows<B>(group, q + c, c);
        for (; c < n; c++) spread_rows<1>(group, q + c, c);
      }
    }
  }

  template <int NB>
  void make_rows(const ItemGroup& group, int q, int c) {
    const int d1 = group.x.dim, d2 = group.y.dim;
    T* z = products_.data();
    for (int b = 0; b < NB; b++)
      for (int i = 0; i < d1; i++) {
        const V x = S::load(xs_.data() + at(group.x, i, group.x_columns[q + b]));
        for (int j = 0; j < d2; j++)
          S::store(z + ((i * d2 + j) * NB + b) * N,
                   x * S::load(ys_.data() + at(group.y, j, group.y_columns[q + b])));
      }
    const ItemTerms<T>& table = group.template forward<T>();
    for (int r = 0; r < group.rows; r++)
      sum_terms<NB>(table, r, z, NB, rows_.data() + (int64_t(r) * chunk_ + c) * N);
  }

  // Sum r of a table over NB neighbours; the numbers it is made of are `step` vectors apart.
  template <int NB>
  MLPOT_INLINE static void sum_terms(const ItemTerms<T>& table, int r, const T* from,
                                     int64_t step, T* to) {
    V sum[NB] = {};
    for (int t = table.begin[r]; t < table.begin[r + 1]; t++) {
      const T* z = from + table.terms[t].from * step * N;
      const V c = S::all(table.terms[t].c);
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) sum[b] += S::load(z + b * N) * c;
    }
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) S::store(to + b * N, sum[b]);
  }

  template <int NB>
  void spread_rows(const ItemGroup& group, int q, int c) {
    const int d1 = group.x.dim, d2 = group.y.dim;
    const ItemTerms<T>& table = group.template backward<T>();
    T* z = products_.data();
    for (int ij = 0; ij < d1 * d2; ij++)
      sum_terms<NB>(table, ij, rows_.data() + int64_t(c) * N, chunk_, z + ij * NB * N);
    const bool to_x = map_ == ItemMap::x;
    const ItemBlock &own = to_x ? group.x : group.y, &other = to_x ? group.y : group.x;
    const int step = to_x ? 1 : d2, own_step = to_x ? d2 : 1;
    const T* others = to_x ? ys_.data() : xs_.data();
    for (int b = 0; b < NB; b++) {
      const int own_column = (to_x ? group.x_columns : group.y_columns)[q + b];
      const int column = (to_x ? group.y_columns : group.x_columns)[q + b];
      for (int i = 0; i < own.dim; i++) {
        T* to = to_.data() + at(own, i, own_column);
        V sum = S::load(to);
        for (int j = 0; j < other.dim; j++)
          sum += S::load(z + ((i * own_step + j * step) * NB + b) * N) *
                 S::load(others + at(other, j, column));
        S::store(to, sum);
      }
    }
  }

  const T* row(const ItemPath& p, int k) const {
    return rows_.data() + int64_t(p.first_row + k) * chunk_ * N;
  }
  T* row(const ItemPath& p, int k) { return rows_.data() + int64_t(p.first_row + k) * chunk_ * N; }

  // Weights of channels q .. q + n - 1: as they are if shared, else in lanes.
  const T* weights(const ItemPath& p, int q, int n) {
    const int per = p.weight == ItemWeight::matrix ? p.mixed : 1;
    const int64_t begin = p.w_offset + int64_t(q) * per;
    if (SHARED) return w_ + begin;
    lanes_.resize(int64_t(n) * per * N);
    rows_to_lanes(w_ + first_ * plan_.n_weights + begin, plan_.n_weights, n_, n * per,
                  lanes_.data());
    return lanes_.data();
  }
  static MLPOT_INLINE V weight(const T* w, int64_t i) {
    return SHARED ? S::all(w[i]) : S::load(w + i * N);
  }

  void add_to_output(const ItemPath& p, int q, int n) {
    if (p.weight == ItemWeight::matrix) {
      const T* w = weights(p, q, n);
      blocks(p.out.dim, p.mixed, [&](auto kb, auto mb, int k, int m) {
        mix<kb.value, mb.value>(p, w, n, k, m);
      });
      return;
    }
    const T* w = p.weight == ItemWeight::none ? nullptr : weights(p, q, n);
    for (int k = 0; k < p.out.dim; k++)
      for (int c = 0; c < n; c++) {
        T* to = to_.data() + at(p.out, k, p.out_columns[q + c]);
        V v = S::load(row(p, k) + c * N);
        if (w) v *= weight(w, c);
        S::store(to, S::load(to) + v);
      }
  }

  void rows_of_cotangent(const ItemPath& p, int q, int n) {
    if (p.weight == ItemWeight::matrix) {
      const T* w = weights(p, q, n);
      blocks(p.out.dim, n, [&](auto kb, auto cb, int k, int c) {
        unmix<kb.value, cb.value>(p, w, k, c);
      });
      return;
    }
    const T* w = p.weight == ItemWeight::none ? nullptr : weights(p, q, n);
    for (int k = 0; k < p.out.dim; k++)
      for (int c = 0; c < n; c++) {
        V v = S::load(gs_.data() + at(p.out, k, p.out_columns[q + c]));
        if (w) v *= weight(w, c);
        S::store(row(p, k) + c * N, v);
      }
  }

  // Calls use(components, columns, k, m) for blocks that fit the registers.
  template <class Use>
  static void blocks(int n_components, int n_columns, const Use& use) {
    using std::integral_constant;
    for (int k = 0; k < n_components;) {
      const int left = n_components - k;
      const int kb = left == 5 ? 3 : std::min(left, 4);
      const auto columns = [&](auto size) {
        int m = 0;
        for (; m + 4 <= n_columns; m += 4) use(size, integral_constant<int, 4>{}, k, m);
        for (; m < n_columns; m++) use(size, integral_constant<int, 1>{}, k, m);
      };
      if (kb == 4) columns(integral_constant<int, 4>{});
      if (kb == 3) columns(integral_constant<int, 3>{});
      if (kb == 2) columns(integral_constant<int, 2>{});
      if (kb == 1) columns(integral_constant<int, 1>{});
      k += kb;
    }
  }

  template <int KB, int MB>
  void mix(const ItemPath& p, const T* w, int n, int k, int m) {
    V sum[KB][MB];
    MLPOT_UNROLL
    for (int a = 0; a < KB; a++)
      MLPOT_UNROLL
      for (int b = 0; b < MB; b++)
        sum[a][b] = S::load(to_.data() + at(p.out, k + a, (m + b) * p.mixed_stride));
    for (int c = 0; c < n; c++) {
      V t[KB];
      MLPOT_UNROLL
      for (int a = 0; a < KB; a++) t[a] = S::load(row(p, k + a) + c * N);
      MLPOT_UNROLL
      for (int b = 0; b < MB; b++) {
        const V wb = weight(w, int64_t(c) * p.mixed + m + b);
        MLPOT_UNROLL
        for (int a = 0; a < KB; a++) sum[a][b] += t[a] * wb;
      }
    }
    MLPOT_UNROLL
    for (int a = 0; a < KB; a++)
      MLPOT_UNROLL
      for (int b = 0; b < MB; b++)
        S::store(to_.data() + at(p.out, k + a, (m + b) * p.mixed_stride), sum[a][b]);
  }

  template <int KB, int CB>
  void unmix(const ItemPath& p, const T* w, int k, int c) {
    V sum[KB][CB] = {};
    for (int m = 0; m < p.mixed; m++) {
      V t[KB];
      MLPOT_UNROLL
      for (int a = 0; a < KB; a++)
        t[a] = S::load(gs_.data() + at(p.out, k + a, m * p.mixed_stride));
      MLPOT_UNROLL
      for (int b = 0; b < CB; b++) {
        const V wb = weight(w, int64_t(c + b) * p.mixed + m);
        MLPOT_UNROLL
        for (int a = 0; a < KB; a++) sum[a][b] += t[a] * wb;
      }
    }
    MLPOT_UNROLL
    for (int a = 0; a < KB; a++)
      MLPOT_UNROLL
      for (int b = 0; b < CB; b++) S::store(row(p, k + a) + (c + b) * N, sum[a][b]);
  }

  void adjoint_to_weights(const ItemPath& p, int q, int n) {
    if (p.weight == ItemWeight::none) return;
    const bool matrix = p.weight == ItemWeight::matrix;
    if (matrix && SHARED) {
      int c = 0;
      for (; c + B <= n; c += B) add_matrix_adjoint<B>(p, q, c);
      for (; c < n; c++) add_matrix_adjoint<1>(p, q, c);
      return;
    }
    const int per = matrix ? p.mixed : 1;
    if (!SHARED) lanes_.resize(int64_t(n) * per * N);
    for (int c = 0; c < n; c++)
      for (int m = 0; m < per; m++) {
        V sum = {};
        for (int k = 0; k < p.out.dim; k++)
          sum += S::load(row(p, k) + c * N) *
                 S::load(gs_.data() +
                         at(p.out, k, matrix ? m * p.mixed_stride : p.out_columns[q + c]));
        if (SHARED)
          w_bar_[p.w_offset + q + c] += S::sum(sum);
        else
          S::store(lanes_.data() + (int64_t(c) * per + m) * N, sum);
      }
    if (!SHARED)
      lanes_to_rows(lanes_.data(), plan_.n_weights, n_, n * per,
                    result_ + first_ * plan_.n_weights + p.w_offset + int64_t(q) * per);
  }

  // The cotangent of each matrix's output with the output channels in lanes: for the adjoint to
  // shared weights, a sum over items.
  void gather_matrix_rows(const ItemGroup& group) {
    int64_t size = 0;
    matrix_rows_.clear();
    for (const ItemPath& p : group.paths) {
      matrix_rows_.push_back(size);
      if (p.weight == ItemWeight::matrix) size += int64_t(p.out.dim) * N * padded(p.mixed);
    }
    cotangents_.resize(size);
    for (size_t at_path = 0; at_path < group.paths.size(); at_path++) {
      const ItemPath& p = group.paths[at_path];
      if (p.weight != ItemWeight::matrix) continue;
      const int wide = padded(p.mixed);
      T* to = cotangents_.data() + matrix_rows_[at_path];
      std::fill_n(to, int64_t(p.out.dim) * N * wide, T(0));
      for (int item = 0; item < n_; item++) {
        const T* from = g_ + (first_ + item) * plan_.dim_out + p.out.offset;
        for (int k = 0; k < p.out.dim; k++)
          for (int m = 0; m < p.mixed; m++)
            to[(int64_t(k) * N + item) * wide + m] = from[k * p.out.stride + m * p.mixed_stride];
      }
    }
    first_path_ = group.paths.data();
  }
  static int padded(int n) { return (n + N - 1) / N * N; }

  template <int CB>
  void add_matrix_adjoint(const ItemPath& p, int q, int c) {
    const int wide = padded(p.mixed);
    const T* g = cotangents_.data() + matrix_rows_[&p - first_path_];
    T* w_bar = w_bar_ + p.w_offset + int64_t(q + c) * p.mixed;
    for (int m = 0; m < p.mixed; m += N) {
      const int n = std::min(N, p.mixed - m);
      V sum[CB] = {};
      for (int k = 0; k < p.out.dim; k++) {
        const T* t = row(p, k) + c * N;
        for (int item = 0; item < N; item++) {
          const V gm = S::load(g + (int64_t(k) * N + item) * wide + m);
          MLPOT_UNROLL
          for (int b = 0; b < CB; b++) sum[b] += gm * t[b * N + item];
        }
      }
      for (int b = 0; b < CB; b++) {
        T* to = w_bar + b * p.mixed + m;
        S::store_first(to, S::load_first(to, n) + sum[b], n);
      }
    }
  }

  const ItemPlan& plan_;
  const ItemMap map_;
  const T *x_, *y_, *w_, *g_;
  T *result_, *w_bar_ = nullptr;
  int width_, n_ = 0, chunk_ = 0;
  int64_t first_ = 0;
  Scratch<T> xs_, ys_, gs_, to_, rows_, products_, lanes_, cotangents_;
  std::vector<int64_t> matrix_rows_;
  const ItemPath* first_path_ = nullptr;
};

}  // namespace mlpot
