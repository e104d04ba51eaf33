#include "primitives.h"

namespace mlpot {
namespace {

constexpr int kIndexArrays = 5;

int64_t rows(const mx::array& a) { return a.shape(0); }

int64_t row_width(const mx::array& a) {
  int64_t width = 1;
  for (size_t axis = 1; axis < a.ndim(); axis++) width *= a.shape(axis);
  return width;
}

}  // namespace

std::vector<mx::array> Convolution::make(const std::shared_ptr<const Plan>& plan, Map map,
                                         const std::vector<mx::array>& inputs, mx::Stream s) {
  const size_t n_arrays = map == Map::yw ? 4 : 3;
  require(inputs.size() == n_arrays + kIndexArrays, "wrong number of arrays for a convolution");
  const mx::Dtype type = float_type(inputs[0]);
  const int n_edges = inputs[n_arrays].size(), n_nodes = inputs[n_arrays + 2].size() - 1;
  const mx::Shape x{n_nodes, plan->dim_x}, y{n_edges, plan->dim_y}, w{n_edges, plan->n_weights},
      out{n_nodes, plan->dim_out};
  std::vector<mx::Shape> expected, result;
  switch (map) {
    case Map::conv:
      expected = {x, y, w}, result = {out};
      break;
    case Map::x:
      expected = {y, w, out}, result = {x};
      break;
    case Map::y:
      expected = {x, w, out}, result = {y};
      break;
    case Map::w:
      expected = {x, y, out}, result = {w};
      break;
    case Map::yw:
      expected = {x, y, w, out}, result = {y, w};
      break;
  }
  for (size_t i = 0; i < n_arrays; i++) {
    require(inputs[i].dtype() == type, "the arrays of a convolution need one dtype");
    require(inputs[i].shape() == expected[i], "an array of a convolution has the wrong shape");
  }
  for (size_t i = n_arrays; i < inputs.size(); i++)
    require(inputs[i].dtype() == mx::int32, "the edges of a convolution need to be int32");
  require(rows(inputs[n_arrays + 1]) == n_edges && rows(inputs[n_arrays + 3]) == n_edges &&
              rows(inputs[n_arrays + 4]) == n_nodes + 1,
          "the arrays of an edge list do not belong together");
  return mx::array::make_arrays(result, std::vector<mx::Dtype>(result.size(), type),
                                std::make_shared<Convolution>(s, plan, map), inputs);
}

template <class T>
void Convolution::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const size_t n_arrays = inputs.size() - kIndexArrays;
  const int64_t n_edges = inputs[n_arrays].size(), n_nodes = inputs[n_arrays + 2].size() - 1;
  enqueue<T>(inputs, outputs,
             [plan = plan_, map = map_, n_arrays, n_edges, n_nodes](
                 const std::vector<const void*>& in, const std::vector<T*>& out) {
               const auto index = [&](int i) {
                 return static_cast<const int32_t*>(in[n_arrays + i]);
               };
               const auto array = [&](int i) { return static_cast<const T*>(in[i]); };
               const Edges edges{n_nodes,  n_edges,  index(0), index(1),
                                 index(2), index(3), index(4)};
               check(edges);
               const T* none = nullptr;
               switch (map) {
                 case Map::conv:
                   return convolve<T>(*plan, edges, array(0), array(1), array(2), out[0]);
                 case Map::x:
                   return convolve_x<T>(*plan, edges, array(0), array(1), array(2), out[0]);
                 case Map::y:
                   return convolve_edges<T>(*plan, edges, array(0), none, array(1), array(2),
                                            out[0], nullptr);
                 case Map::w:
                   return convolve_edges<T>(*plan, edges, array(0), array(1), none, array(2),
                                            nullptr, out[0]);
                 case Map::yw:
                   return convolve_edges<T>(*plan, edges, array(0), array(1), array(2), array(3),
                                            out[0], out[1]);
               }
             });
}

void Convolution::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

std::vector<mx::array> Rows::make(bool gather, int n_segments,
                                  const std::vector<mx::array>& inputs, mx::Stream s) {
  const mx::array &x = inputs[0], &index = inputs[1];
  const mx::Dtype type = float_type(x);
  require(index.dtype() == mx::int32 && index.ndim() == 1, "the index needs to be a row of int32");
  require(x.ndim() >= 1 && (gather || rows(x) == rows(index)), "one index is needed for each row");
  mx::Shape shape = x.shape();
  shape[0] = gather ? index.shape(0) : n_segments;
  return {mx::array(std::move(shape), type, std::make_shared<Rows>(s, gather, n_segments), inputs)};
}

template <class T>
void Rows::eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = rows(inputs[1]), width = row_width(inputs[0]);
  const int64_t limit = gather_ ? rows(inputs[0]) : n_segments_;
  enqueue<T>(inputs, outputs,
             [gather = gather_, n, width, limit](const std::vector<const void*>& in,
                                                 const std::vector<T*>& out) {
               const T* x = static_cast<const T*>(in[0]);
               const int32_t* index = static_cast<const int32_t*>(in[1]);
               gather ? gather_rows<T>(x, index, n, limit, width, out[0])
                      : sum_segments<T>(x, index, n, limit, width, out[0]);
             });
}

void Rows::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  inputs[0].dtype() == mx::float32 ? eval<float>(inputs, outputs) : eval<double>(inputs, outputs);
}

mx::array Elementary::make(Function f, const mx::array& x, mx::Stream s) {
  return mx::array(x.shape(), float_type(x), std::make_shared<Elementary>(s, f),
                   {mx::contiguous(x, false, s)});
}

void Elementary::eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
  const int64_t n = inputs[0].size();
  if (inputs[0].is_donatable()) outputs[0].copy_shared_buffer(inputs[0]);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    enqueue<T>(inputs, outputs,
               [f = f_, n](const std::vector<const void*>& in, const std::vector<T*>& out) {
                 evaluate<T>(f, static_cast<const T*>(in[0]), out[0], n);
               });
  };
  inputs[0].dtype() == mx::float32 ? run(float()) : run(double());
}

}  // namespace mlpot
