#include "block_linear.h"

#include <map>
#include <stdexcept>
#include <tuple>

#include "block_linear_tiles.h"
#include "threads.h"

namespace mlpot {
namespace {

constexpr size_t kIntegersOfAPath = 8;
constexpr int64_t kNodesOfAChunk = 32;
// Chunks whose adjoints to the weights are added in order; their number depends on n alone.
constexpr int64_t kMostSums = 16;

// Paths into one output block that share the scalars of y.
template <class T>
struct Group {
  int64_t out_offset, mul_out, d, y_offset, n_y;
  std::vector<Matrix<T>> matrices;
};

// A map out of x, or with `transposed` the one back, ready for the inner loops.
template <class T>
class Map {
 public:
  Map(const LinearPlan& plan, const T* w, bool transposed) : has_y_(plan.dim_y > 0) {
    constexpr int64_t L = Simd<T>::lanes;
    std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> place;
    std::vector<std::vector<int64_t>> starts;
    int64_t size = 0;
    for (const LinearPath& p : plan.paths) {
      const int64_t out_offset = transposed ? p.x_offset : p.out_offset;
      const int64_t mul_out = transposed ? p.mul_in : p.mul_out;
      const auto key = std::make_tuple(out_offset, int64_t(p.y_offset), int64_t(p.n_y));
      if (place.emplace(key, groups_.size()).second) {
        groups_.push_back({out_offset, mul_out, p.d, p.y_offset, p.n_y, {}});
        starts.emplace_back();
      }
      const int64_t mul_in = transposed ? p.mul_out : p.mul_in;
      const int64_t stride = (mul_out + L - 1) / L * L + L;
      groups_[place[key]].matrices.push_back(
          {transposed ? p.out_offset : p.x_offset, mul_in, stride, nullptr});
      starts[place[key]].push_back(size);
      size += p.n_y * mul_in * stride;
      work_ += p.d * p.n_y * mul_in * stride / L;
    }
    values_.assign(size, T(0));
    std::vector<size_t> next(groups_.size(), 0);
    for (const LinearPath& p : plan.paths) {
      const int64_t out_offset = transposed ? p.x_offset : p.out_offset;
      const size_t g = place[std::make_tuple(out_offset, int64_t(p.y_offset), int64_t(p.n_y))];
      const size_t q = next[g]++;
      Matrix<T>& m = groups_[g].matrices[q];
      T* to = values_.data() + starts[g][q];
      m.values = to;
      for (int64_t u = 0; u < p.mul_in; u++)
        for (int64_t v = 0; v < p.n_y; v++) {
          const T* from = w + p.w_offset + (u * p.n_y + v) * p.mul_out;
          T* block = to + v * m.mul_in * m.stride;
          for (int64_t c = 0; c < p.mul_out; c++)
            block[transposed ? c * m.stride + u : u * m.stride + c] = from[c] * T(p.factor);
        }
    }
  }

  void run(int64_t n, const T* in, int64_t dim_in, const T* y, int64_t dim_y, T* out,
           int64_t dim_out) const {
    parallel(n, kNodesOfAChunk, n * work_, [&](Chunks& chunks) {
      std::vector<BlockRow<T>> rows;
      int64_t begin, end;
      while (chunks.next(begin, end)) {
        std::fill(out + begin * dim_out, out + end * dim_out, T(0));
        for (const Group<T>& g : groups_)
          for (int64_t v = 0; v < g.n_y; v++) {
            rows.clear();
            for (int64_t node = begin; node < end; node++) {
              const T factor = has_y_ ? y[node * dim_y + g.y_offset + v] : T(1);
              if (factor == 0) continue;
              for (int64_t k = 0; k < g.d; k++)
                rows.push_back({in + node * dim_in,
                                out + node * dim_out + g.out_offset + k * g.mul_out, int(k),
                                factor});
            }
            const int64_t n_rows = static_cast<int64_t>(rows.size());
            for (int64_t r = 0; r < n_rows; r += kTileRows)
              add_rows<T>(g.matrices.data(), int(g.matrices.size()), v, rows.data() + r,
                          int(std::min<int64_t>(kTileRows, n_rows - r)), g.mul_out);
          }
      }
    });
  }

 private:
  bool has_y_;
  std::vector<Group<T>> groups_;
  std::vector<T> values_;
  int64_t work_ = 1;
};

}  // namespace

LinearPlan::LinearPlan(int dim_x, int dim_y, int n_weights, int dim_out,
                       const std::vector<int>& integers, const std::vector<double>& factors)
    : dim_x(dim_x), dim_y(dim_y), n_weights(n_weights), dim_out(dim_out) {
  if (integers.size() != kIntegersOfAPath * factors.size())
    throw std::invalid_argument("a path of a linear map has eight integers and a factor");
  for (size_t q = 0; q < factors.size(); q++) {
    const int* v = integers.data() + q * kIntegersOfAPath;
    const LinearPath p{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], factors[q]};
    const auto inside = [](int offset, int64_t size, int limit) {
      return offset >= 0 && size > 0 && offset + size <= limit;
    };
    const bool y = dim_y > 0 ? inside(p.y_offset, p.n_y, dim_y) : p.y_offset == 0 && p.n_y == 1;
    if (!y || p.d <= 0 || !inside(p.x_offset, int64_t(p.d) * p.mul_in, dim_x) ||
        !inside(p.out_offset, int64_t(p.d) * p.mul_out, dim_out) ||
        !inside(p.w_offset, int64_t(p.mul_in) * p.n_y * p.mul_out, n_weights))
      throw std::invalid_argument("a path of a linear map reaches outside its arrays");
    for (const LinearPath& other : paths)
      if ((other.out_offset == p.out_offset && (other.d != p.d || other.mul_out != p.mul_out)) ||
          (other.x_offset == p.x_offset && (other.d != p.d || other.mul_in != p.mul_in)))
        throw std::invalid_argument("paths of a linear map see one block in two shapes");
    paths.push_back(p);
  }
}

template <class T>
void linear_out(const LinearPlan& plan, int64_t n, const T* x, const T* y, const T* w, T* out) {
  Map<T>(plan, w, false).run(n, x, plan.dim_x, y, plan.dim_y, out, plan.dim_out);
}

template <class T>
void linear_x(const LinearPlan& plan, int64_t n, const T* y, const T* w, const T* g, T* x_bar) {
  Map<T>(plan, w, true).run(n, g, plan.dim_out, y, plan.dim_y, x_bar, plan.dim_x);
}

template <class T>
void linear_y(const LinearPlan& plan, int64_t n, const T* x, const T* w, const T* g, T* y_bar) {
  int64_t work = 1;
  for (const LinearPath& p : plan.paths) work += int64_t(p.d) * p.n_y * p.mul_in * p.mul_out;
  parallel(n, kNodesOfAChunk, n * work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end)) {
      std::fill(y_bar + begin * plan.dim_y, y_bar + end * plan.dim_y, T(0));
      for (int64_t node = begin; node < end; node++)
        for (const LinearPath& p : plan.paths)
          for (int64_t k = 0; k < p.d; k++) {
            const T* in = x + node * plan.dim_x + p.x_offset + k * p.mul_in;
            const T* got = g + node * plan.dim_out + p.out_offset + k * p.mul_out;
            T* to = y_bar + node * plan.dim_y + p.y_offset;
            for (int64_t u = 0; u < p.mul_in; u++)
              for (int64_t v = 0; v < p.n_y; v++) {
                const T* row = w + p.w_offset + (u * p.n_y + v) * p.mul_out;
                T sum = 0;
                for (int64_t c = 0; c < p.mul_out; c++) sum += row[c] * got[c];
                to[v] += sum * in[u] * T(p.factor);
              }
          }
    }
  });
}

template <class T>
void linear_w(const LinearPlan& plan, int64_t n, const T* x, const T* y, const T* g, T* w_bar) {
  const int64_t grain = std::max(kNodesOfAChunk, (n + kMostSums - 1) / kMostSums);
  const int64_t n_chunks = (n + grain - 1) / grain;
  int64_t work = 1;
  for (const LinearPath& p : plan.paths)
    work += int64_t(p.d) * p.n_y * p.mul_in * (p.mul_out / Simd<T>::lanes + 1);
  std::vector<T> sums(n_chunks * plan.n_weights);
  parallel(n_chunks, 1, n * work, [&](Chunks& chunks) {
    std::vector<PairOfRows<T>> rows;
    int64_t chunk, end;
    while (chunks.next(chunk, end))
      for (const LinearPath& p : plan.paths)
        for (int64_t v = 0; v < p.n_y; v++) {
          rows.clear();
          for (int64_t node = chunk * grain; node < std::min(n, (chunk + 1) * grain); node++) {
            const T factor = plan.dim_y > 0 ? y[node * plan.dim_y + p.y_offset + v] : T(1);
            if (factor == 0) continue;
            for (int64_t k = 0; k < p.d; k++)
              rows.push_back({x + node * plan.dim_x + p.x_offset + k * p.mul_in,
                              g + node * plan.dim_out + p.out_offset + k * p.mul_out,
                              factor * T(p.factor)});
          }
          outer_rows<T>(rows.data(), int64_t(rows.size()), p.mul_in, p.mul_out,
                        sums.data() + chunk * plan.n_weights + p.w_offset + v * p.mul_out,
                        int64_t(p.n_y) * p.mul_out);
        }
  });
  std::fill(w_bar, w_bar + plan.n_weights, T(0));
  for (int64_t chunk = 0; chunk < n_chunks; chunk++)
    for (int64_t i = 0; i < plan.n_weights; i++) w_bar[i] += sums[chunk * plan.n_weights + i];
}

#define MLPOT_INSTANTIATE_LINEAR(T)                                                              \
  template void linear_out<T>(const LinearPlan&, int64_t, const T*, const T*, const T*, T*);     \
  template void linear_x<T>(const LinearPlan&, int64_t, const T*, const T*, const T*, T*);       \
  template void linear_y<T>(const LinearPlan&, int64_t, const T*, const T*, const T*, T*);       \
  template void linear_w<T>(const LinearPlan&, int64_t, const T*, const T*, const T*, T*);
MLPOT_INSTANTIATE_LINEAR(float)
MLPOT_INSTANTIATE_LINEAR(double)

}  // namespace mlpot
