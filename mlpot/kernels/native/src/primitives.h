// MLX primitives around the kernels: lazy, on a CPU stream, values only. Derivatives are the
// business of the custom functions of mlpot.kernels.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "convolution.h"
#include "elementary.h"
#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/utils.h"
#include "segment.h"

namespace mlpot {

namespace mx = mlx::core;

// A copy of an array's elements in the order of its rows.
inline std::vector<char> in_row_order(const char* data, const mx::Shape& shape,
                                      const mx::Strides& strides, size_t itemsize) {
  size_t size = itemsize;
  for (auto n : shape) size *= n;
  std::vector<char> copy(size);
  std::vector<mx::ShapeElem> at(shape.size(), 0);
  const int64_t length = shape.empty() ? 1 : shape.back();
  const int64_t step = (shape.empty() ? 1 : strides.back()) * int64_t(itemsize);
  for (char* to = copy.data(); to < copy.data() + size;) {
    const char* from = data;
    for (size_t axis = 0; axis + 1 < shape.size(); axis++)
      from += at[axis] * strides[axis] * int64_t(itemsize);
    for (int64_t i = 0; i < length; i++, to += itemsize)
      std::memcpy(to, from + i * step, itemsize);
    for (size_t axis = shape.size(); axis-- > 1;) {
      if (++at[axis - 1] < shape[axis - 1]) break;
      at[axis - 1] = 0;
    }
  }
  return copy;
}

// What all have in common. `Derived` names its kernel by `call<T>(inputs, outputs)`.
class Native : public mx::Primitive {
 public:
  using mx::Primitive::Primitive;

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("mlpot's native kernels run on the CPU");
  }

  // Members of a batch one after the other: the kernels are parallel in themselves.
  std::pair<std::vector<mx::array>, std::vector<int>> vmap(const std::vector<mx::array>& inputs,
                                                           const std::vector<int>& axes) override {
    int size = 0;
    for (size_t i = 0; i < inputs.size(); i++)
      if (axes[i] >= 0) size = inputs[i].shape(axes[i]);
    std::vector<std::vector<mx::array>> columns;
    for (int b = 0; b < size; b++) {
      std::vector<mx::array> member;
      for (size_t i = 0; i < inputs.size(); i++)
        member.push_back(axes[i] < 0 ? inputs[i] : mx::take(inputs[i], b, axes[i], stream()));
      auto outputs = apply(member);
      columns.resize(outputs.size());
      for (size_t k = 0; k < outputs.size(); k++) columns[k].push_back(outputs[k]);
    }
    std::vector<mx::array> stacked;
    for (const auto& column : columns) stacked.push_back(mx::stack(column, 0, stream()));
    return {stacked, std::vector<int>(stacked.size(), 0)};
  }

  // The same operation on other arrays.
  virtual std::vector<mx::array> apply(const std::vector<mx::array>& inputs) = 0;

 protected:
  // Allocates the outputs and runs kernel(inputs, outputs) when the stream gets there, with inputs
  // in row order. The arrays are captured by pointer: MLX keeps them alive until then.
  template <class T, class Kernel>
  void enqueue(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs,
               Kernel kernel) {
    struct View {
      size_t input, itemsize;
      mx::Shape shape;
      mx::Strides strides;
    };
    std::vector<const void*> in;
    std::vector<View> views;
    std::vector<T*> out;
    std::vector<size_t> sizes;
    for (mx::array& o : outputs) {
      if (o.data_shared_ptr() == nullptr) o.set_data(mx::allocator::malloc(o.nbytes()));
      out.push_back(o.data<T>());
      sizes.push_back(o.size());
    }
    auto& encoder = mx::cpu::get_command_encoder(stream());
    for (const mx::array& i : inputs) {
      if (!i.flags().row_contiguous) views.push_back({in.size(), i.itemsize(), i.shape(), i.strides()});
      in.push_back(i.data<void>());
      encoder.set_input_array(i);
    }
    for (mx::array& o : outputs) encoder.set_output_array(o);
    if (views.empty()) {
      encoder.dispatch([in, out, sizes, kernel]() { guarded<T>(kernel, in, out, sizes); });
      return;
    }
    encoder.dispatch([in, views, out, sizes, kernel]() {
      auto ordered = in;
      std::vector<std::vector<char>> copies;
      for (const View& v : views) {
        copies.push_back(
            in_row_order(static_cast<const char*>(in[v.input]), v.shape, v.strides, v.itemsize));
        ordered[v.input] = copies.back().data();
      }
      guarded<T>(kernel, ordered, out, sizes);
    });
  }

 private:
  // An exception must not leave a task: MLX 0.32.4 then never counts the tasks behind it as done,
  // and waits for them forever. So what cannot be computed becomes NaN, with a word on stderr.
  template <class T, class Kernel>
  static void guarded(const Kernel& kernel, const std::vector<const void*>& in,
                      const std::vector<T*>& out, const std::vector<size_t>& sizes) {
    try {
      kernel(in, out);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "mlpot: error: %s; the result is NaN\n", error.what());
      for (size_t o = 0; o < out.size(); o++)
        std::fill_n(out[o], sizes[o], std::numeric_limits<T>::quiet_NaN());
    }
  }
};

// The stream, which has to be one of the CPU; the default one where none is given.
inline mx::Stream cpu_stream(const mx::StreamOrDevice& s = {}) {
  const mx::Stream stream = mx::to_stream(s);
  if (stream.device != mx::Device::cpu)
    throw std::invalid_argument("mlpot's native kernels need a CPU stream");
  return stream;
}

inline void require(bool right, const char* what) {
  if (!right) throw std::invalid_argument(what);
}

inline mx::Dtype float_type(const mx::array& a) {
  if (a.dtype() != mx::float32 && a.dtype() != mx::float64)
    throw std::invalid_argument("mlpot's native kernels take float32 and float64 arrays");
  return a.dtype();
}

// conv (x, y, w) -> out; conv_x (y, w, g) -> x_bar; conv_y (x, w, g) -> y_bar;
// conv_w (x, y, g) -> w_bar; conv_yw (x, y, w, g) -> y_bar, w_bar. The five index arrays follow.
class Convolution : public Native {
 public:
  enum class Map { conv, x, y, w, yw };

  Convolution(mx::Stream s, std::shared_ptr<const Plan> plan, Map map)
      : Native(s), plan_(std::move(plan)), map_(map) {}

  const char* name() const override { return "MlpotConvolution"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const Convolution&>(other);
    return o.plan_ == plan_ && o.map_ == map_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return make(plan_, map_, inputs, stream());
  }

  static std::vector<mx::array> make(const std::shared_ptr<const Plan>& plan, Map map,
                                     const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  std::shared_ptr<const Plan> plan_;
  Map map_;
};

// x (n, ...), index (m) -> x[index]; or the sum of the rows of x that share an index.
class Rows : public Native {
 public:
  Rows(mx::Stream s, bool gather, int n_segments)
      : Native(s), gather_(gather), n_segments_(n_segments) {}

  const char* name() const override { return gather_ ? "MlpotGather" : "MlpotSegmentSum"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& o = static_cast<const Rows&>(other);
    return o.gather_ == gather_ && o.n_segments_ == n_segments_;
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return make(gather_, n_segments_, inputs, stream());
  }

  static std::vector<mx::array> make(bool gather, int n_segments,
                                     const std::vector<mx::array>& inputs, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  template <class T>
  void eval(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs);

  bool gather_;
  int n_segments_;
};

class Elementary : public Native {
 public:
  Elementary(mx::Stream s, Function f) : Native(s), f_(f) {}

  const char* name() const override { return "MlpotElementary"; }
  bool is_equivalent(const mx::Primitive& other) const override {
    return static_cast<const Elementary&>(other).f_ == f_;
  }
  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }
  std::pair<std::vector<mx::array>, std::vector<int>> vmap(const std::vector<mx::array>& inputs,
                                                           const std::vector<int>& axes) override {
    return {apply(inputs), axes};
  }
  std::vector<mx::array> apply(const std::vector<mx::array>& inputs) override {
    return {make(f_, inputs[0], stream())};
  }

  static mx::array make(Function f, const mx::array& x, mx::Stream s);
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override;

 private:
  Function f_;
};

}  // namespace mlpot
