// What is fixed about a tensor product of items: its paths, and which channels meet in each.
//
//   out[k, co(q)] += sum_{i, j} C[i, j, k] W(q) x[i, cx(q)] y[j, cy(q)]        q: channels of a path
//
// W(q) is 1, a weight of the channel, or a matrix that mixes the channels q into those of the
// output. The channel maps cx, cy, co express every mode (all pairs, equal channels, u < v, sums
// over one input); strides express every layout.
#pragma once

#include <cstdint>
#include <vector>

namespace mlpot {

enum class ItemWeight { none, channel, matrix };

// A block of an operand: component i of channel c is at offset + i * stride + (column of c).
struct ItemBlock {
  int offset, stride, dim;
  bool operator==(const ItemBlock& o) const {
    return offset == o.offset && stride == o.stride && dim == o.dim;
  }
};

struct ItemPath {
  ItemBlock out;
  ItemWeight weight;
  int w_offset;
  int mixed, mixed_stride;        // channels of the output after a matrix, and their distance
  std::vector<int> out_columns;   // of each channel q; empty with a matrix
  int first_row;                  // of its components among those of the group
};

// c * (product a), or c * (row k).
template <class T>
struct ItemTerm {
  int32_t from;
  T c;
};

// Sparse sums: result r is the sum of terms begin[r] .. begin[r + 1].
template <class T>
struct ItemTerms {
  std::vector<int32_t> begin{0};
  std::vector<ItemTerm<T>> terms;
};

// Paths of one block of x and one of y whose channels meet alike: they share the products x y.
struct ItemGroup {
  ItemBlock x, y;
  std::vector<int> x_columns, y_columns;  // of each channel q
  std::vector<ItemPath> paths;
  int rows = 0;  // components of all paths
  ItemTerms<float> forward_float, backward_float;    // rows from products, products from rows
  ItemTerms<double> forward_double, backward_double;

  int channels() const { return static_cast<int>(x_columns.size()); }
  template <class T>
  const ItemTerms<T>& forward() const;
  template <class T>
  const ItemTerms<T>& backward() const;
};

struct ItemPlan {
  int dim_x, dim_y, n_weights, dim_out;
  std::vector<ItemGroup> groups;
  int64_t operations = 0;  // multiplications of one item
  int64_t used_weights = 0;

  // Each group: x offset, stride, dim; y offset, stride, dim; channels; paths; x_columns;
  // y_columns; then for each path: out offset, stride, dim; weight (0, 1, 2); w_offset; mixed;
  // mixed_stride; out_columns unless a matrix. coefficients: (d1, d2, d3) arrays, path by path.
  ItemPlan(int dim_x, int dim_y, int n_weights, int dim_out, const std::vector<int>& integers,
           const std::vector<double>& coefficients);
};

template <>
inline const ItemTerms<float>& ItemGroup::forward<float>() const { return forward_float; }
template <>
inline const ItemTerms<double>& ItemGroup::forward<double>() const { return forward_double; }
template <>
inline const ItemTerms<float>& ItemGroup::backward<float>() const { return backward_float; }
template <>
inline const ItemTerms<double>& ItemGroup::backward<double>() const { return backward_double; }

enum class ItemMap { out, x, y, w };

// The values of one map. The argument that a map is the adjoint to, and the weights where there
// are none, are null; `result` is zeroed first. With shared weights w is one set for all items.
template <class T>
void item_product(const ItemPlan& plan, ItemMap map, int64_t n_items, bool shared, const T* x,
                  const T* y, const T* w, const T* g, T* result);

}  // namespace mlpot
