#include "item_product_plan.h"

#include <algorithm>
#include <stdexcept>

namespace mlpot {
namespace {

class Reader {
 public:
  explicit Reader(const std::vector<int>& values) : values_(values) {}
  int next() {
    if (at_ >= values_.size()) throw std::invalid_argument("a product's description is too short");
    return values_[at_++];
  }
  std::vector<int> next(int n) {
    std::vector<int> found;
    for (int i = 0; i < n; i++) found.push_back(next());
    return found;
  }
  ItemBlock block() {
    const int offset = next(), stride = next();
    return {offset, stride, next()};
  }
  bool done() const { return at_ == values_.size(); }

 private:
  const std::vector<int>& values_;
  size_t at_ = 0;
};

bool inside(const ItemBlock& b, const std::vector<int>& columns, int width) {
  if (columns.empty() || b.offset < 0 || b.stride < 0 || b.dim < 1) return false;
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  return *low >= 0 && b.offset + int64_t(b.dim - 1) * b.stride + *high < width;
}

void require(bool right) {
  if (!right) throw std::invalid_argument("a path of a product reaches outside its arrays");
}

template <class T>
ItemTerms<T> in_rows(const std::vector<std::vector<ItemTerm<double>>>& rows) {
  ItemTerms<T> found;
  for (const auto& row : rows) {
    for (const auto& term : row) found.terms.push_back({term.from, T(term.c)});
    found.begin.push_back(static_cast<int32_t>(found.terms.size()));
  }
  return found;
}

}  // namespace

ItemPlan::ItemPlan(int dim_x, int dim_y, int n_weights, int dim_out,
                   const std::vector<int>& integers, const std::vector<double>& coefficients)
    : dim_x(dim_x), dim_y(dim_y), n_weights(n_weights), dim_out(dim_out) {
  Reader in(integers);
  size_t used = 0;
  while (!in.done()) {
    ItemGroup group;
    group.x = in.block();
    group.y = in.block();
    const int channels = in.next(), n_paths = in.next();
    group.x_columns = in.next(channels);
    group.y_columns = in.next(channels);
    require(inside(group.x, group.x_columns, dim_x) && inside(group.y, group.y_columns, dim_y));
    const int d1 = group.x.dim, d2 = group.y.dim;
    std::vector<std::vector<ItemTerm<double>>> forward, backward(d1 * d2);
    for (int p = 0; p < n_paths; p++) {
      ItemPath path;
      path.out = in.block();
      path.weight = static_cast<ItemWeight>(in.next());
      path.w_offset = in.next();
      path.mixed = in.next();
      path.mixed_stride = in.next();
      path.first_row = group.rows;
      const bool matrix = path.weight == ItemWeight::matrix;
      if (!matrix) path.out_columns = in.next(channels);
      const std::vector<int> last{matrix ? (path.mixed - 1) * path.mixed_stride : 0};
      require(inside(path.out, matrix ? last : path.out_columns, dim_out));
      const int64_t width = matrix ? int64_t(channels) * path.mixed : channels;
      require(path.weight == ItemWeight::none ||
              (path.w_offset >= 0 && path.w_offset + width <= n_weights));
      if (path.weight != ItemWeight::none) used_weights += width;
      const int d3 = path.out.dim;
      require(used + size_t(d1) * d2 * d3 <= coefficients.size());
      for (int k = 0; k < d3; k++) {
        forward.emplace_back();
        for (int ij = 0; ij < d1 * d2; ij++) {
          const double c = coefficients[used + size_t(ij) * d3 + k];
          if (c == 0) continue;
          forward.back().push_back({ij, c});
          backward[ij].push_back({group.rows + k, c});
        }
        operations += int64_t(channels) * (forward.back().size() + (matrix ? path.mixed : 1));
      }
      used += size_t(d1) * d2 * d3;
      group.rows += d3;
      group.paths.push_back(std::move(path));
    }
    operations += int64_t(channels) * d1 * d2;
    group.forward_float = in_rows<float>(forward);
    group.forward_double = in_rows<double>(forward);
    group.backward_float = in_rows<float>(backward);
    group.backward_double = in_rows<double>(backward);
    groups.push_back(std::move(group));
  }
}

}  // namespace mlpot
