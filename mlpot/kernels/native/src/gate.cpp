#include "gate.h"

#include <stdexcept>

#include "threads.h"
#include "vector_math.h"

namespace mlpot {
namespace {

using F = GateFunction;

// The K-th derivative. With s = 1 / (1 + e^-v) and t = 1 - s: s' = s t, t' = -s t.
template <class T, F f, int K>
MLPOT_INLINE Vec<T> derivative(Vec<T> v) {
  if constexpr (f == F::identity) {
    if constexpr (K == 0) return v;
    return Simd<T>::all(T(K == 1));
  } else if constexpr (f == F::tanh) {
    const Vec<T> t = vtanh<T>(v);
    if constexpr (K == 0) return t;
    // 1 - t^2 = 4 s (1 - s) at 2 v, without cancellation.
    Vec<T> s, c;
    logistic<T>(T(2) * v, s, c);
    const Vec<T> d = T(4) * s * c;
    if constexpr (K == 1) return d;
    if constexpr (K == 2) return T(-2) * t * d;
    return d * (T(6) * t * t - T(2));
  } else {
    if constexpr (f == F::silu && K == 0) return v / (T(1) + vexp<T>(-v));
    Vec<T> s, t;
    logistic<T>(v, s, t);
    if constexpr (f == F::sigmoid) {
      if constexpr (K == 0) return s;
      if constexpr (K == 1) return s * t;
      if constexpr (K == 2) return s * t * (t - s);
      return s * t * (T(1) - T(6) * s * t);
    } else {
      if constexpr (K == 1) return s * (T(1) + v * t);
      if constexpr (K == 2) return s * t * (T(2) + v * (t - s));
      return s * t * (T(3) * (t - s) + v * (T(1) - T(6) * s * t));
    }
  }
}

template <class T>
struct Lane {
  int m;
  MLPOT_INLINE Vec<T> load(const T* p) const {
    return m == Simd<T>::lanes ? Simd<T>::load(p) : Simd<T>::load_first(p, m);
  }
  MLPOT_INLINE void store(T* p, Vec<T> v) const {
    m == Simd<T>::lanes ? Simd<T>::store(p, v) : Simd<T>::store_first(p, v, m);
  }
};

// K derivatives of f at the scalars of one row; D directions.
template <class T, F f, int K, int D>
struct Factors {
  Vec<T> high, own, low[D > 0 ? D : 1];

  MLPOT_INLINE Factors(const GateGroup& group, Lane<T> lane, const T* x, const T* const* a) {
    const T c = T(group.constant);
    const Vec<T> v = lane.load(x + group.scalar);
    Vec<T> s[D > 0 ? D : 1];
    MLPOT_UNROLL
    for (int i = 0; i < D; i++) s[i] = lane.load(a[i] + group.scalar);
    high = c * derivative<T, f, K>(v);
    if constexpr (K > 0) own = c * derivative<T, f, K - 1>(v);
    MLPOT_UNROLL
    for (int i = 0; i < D; i++) {
      low[i] = own;
      MLPOT_UNROLL
      for (int l = 0; l < D; l++)
        if (l != i) low[i] *= s[l];
    }
    MLPOT_UNROLL
    for (int i = 0; i < D; i++) {
      high *= s[i];
      if constexpr (K > 0) own *= s[i];
    }
  }

  MLPOT_INLINE Vec<T> product(int in, Lane<T> lane, const T* x, const T* const* a) const {
    Vec<T> value = high * lane.load(x + in);
    MLPOT_UNROLL
    for (int i = 0; i < D; i++) value += low[i] * lane.load(a[i] + in);
    return value;
  }
};

// One row of one group from channel u on. Pointers are those of the row.
template <class T, F f, int K>
struct Out {
  static constexpr int D = K;
  static MLPOT_INLINE void run(const GateGroup& group, Lane<T> lane, const T* x, const T*,
                               const T* const* a, T* out) {
    const Factors<T, f, K, D> factors(group, lane, x, a);
    if (group.scalar_out >= 0) lane.store(out + group.scalar_out, factors.high);
    for (const auto& pair : group.vectors)
      lane.store(out + pair.out, factors.product(pair.in, lane, x, a));
  }
};

template <class T, F f, int K>
struct Adjoint {
  static constexpr int D = K - 1;
  static MLPOT_INLINE void run(const GateGroup& group, Lane<T> lane, const T* x, const T* g,
                               const T* const* a, T* out) {
    const Factors<T, f, K, D> factors(group, lane, x, a);
    Vec<T> total = {};
    if (group.scalar_out >= 0) total = factors.high * lane.load(g + group.scalar_out);
    for (const auto& pair : group.vectors) {
      const Vec<T> c = lane.load(g + pair.out);
      lane.store(out + pair.in, c * factors.own);
      total += c * factors.product(pair.in, lane, x, a);
    }
    lane.store(out + group.scalar, total);
  }
};

template <class T, template <class, F, int> class Map, F f, int K>
void group_row(const GateGroup& group, const T* x, const T* g, const T* const* a, T* out) {
  constexpr int D = Map<T, f, K>::D, lanes = Simd<T>::lanes;
  const T* at[D > 0 ? D : 1] = {};
  for (int u = 0; u < group.n; u += lanes) {
    for (int i = 0; i < D; i++) at[i] = a[i] + u;
    const Lane<T> lane{group.n - u < lanes ? group.n - u : lanes};
    Map<T, f, K>::run(group, lane, x + u, g ? g + u : nullptr, at, out + u);
  }
}

template <class T, template <class, F, int> class Map, int K>
void all_rows(const GatePlan& plan, int64_t rows, const T* x, const T* g, const T* const* a, T* out,
              int dim_result) {
  constexpr int D = Map<T, F::identity, K>::D;
  constexpr int64_t kRows = 16, kOperationsOfAnElement = 4;
  const int64_t work = rows * plan.dim_x * kOperationsOfAnElement / Simd<T>::lanes;
  parallel(rows, kRows, work, [&](Chunks& chunks) {
    int64_t begin, end;
    const T* at[D > 0 ? D : 1] = {};
    while (chunks.next(begin, end))
      for (int64_t r = begin; r < end; r++) {
        const T* row = x + r * plan.dim_x;
        const T* of_g = g ? g + r * plan.dim_out : nullptr;
        for (int i = 0; i < D; i++) at[i] = a[i] + r * plan.dim_x;
        T* result = out + r * dim_result;
        for (const GateGroup& group : plan.groups) {
          switch (group.function) {
            case F::identity:
              group_row<T, Map, F::identity, K>(group, row, of_g, at, result);
              break;
            case F::silu:
              group_row<T, Map, F::silu, K>(group, row, of_g, at, result);
              break;
            case F::sigmoid:
              group_row<T, Map, F::sigmoid, K>(group, row, of_g, at, result);
              break;
            case F::tanh:
              group_row<T, Map, F::tanh, K>(group, row, of_g, at, result);
              break;
          }
        }
      }
  });
}

}  // namespace

GatePlan::GatePlan(int dim_x, int dim_out, const std::vector<int>& integers,
                   const std::vector<double>& constants)
    : dim_x(dim_x), dim_out(dim_out) {
  size_t at = 0;
  for (double constant : constants) {
    if (at + 5 > integers.size()) throw std::invalid_argument("a gate needs five numbers a group");
    GateGroup group{F(integers[at]), integers[at + 1], integers[at + 2], integers[at + 3],
                    constant, {}};
    const int pairs = integers[at + 4];
    at += 5;
    if (at + 2 * size_t(pairs) > integers.size())
      throw std::invalid_argument("a pair of columns of a gate is missing");
    for (int i = 0; i < pairs; i++, at += 2)
      group.vectors.push_back({integers[at], integers[at + 1]});
    groups.push_back(group);
  }
}

template <class T>
void gate_out(const GatePlan& plan, int order, int64_t rows, const T* x, const T* const* a,
              T* out) {
  switch (order) {
    case 0:
      return all_rows<T, Out, 0>(plan, rows, x, nullptr, a, out, plan.dim_out);
    case 1:
      return all_rows<T, Out, 1>(plan, rows, x, nullptr, a, out, plan.dim_out);
    case 2:
      return all_rows<T, Out, 2>(plan, rows, x, nullptr, a, out, plan.dim_out);
    default:
      return all_rows<T, Out, 3>(plan, rows, x, nullptr, a, out, plan.dim_out);
  }
}

template <class T>
void gate_adjoint(const GatePlan& plan, int order, int64_t rows, const T* x, const T* g,
                  const T* const* a, T* out) {
  switch (order) {
    case 1:
      return all_rows<T, Adjoint, 1>(plan, rows, x, g, a, out, plan.dim_x);
    case 2:
      return all_rows<T, Adjoint, 2>(plan, rows, x, g, a, out, plan.dim_x);
    default:
      return all_rows<T, Adjoint, 3>(plan, rows, x, g, a, out, plan.dim_x);
  }
}

template void gate_out<float>(const GatePlan&, int, int64_t, const float*, const float* const*,
                              float*);
template void gate_out<double>(const GatePlan&, int, int64_t, const double*, const double* const*,
                               double*);
template void gate_adjoint<float>(const GatePlan&, int, int64_t, const float*, const float*,
                                  const float* const*, float*);
template void gate_adjoint<double>(const GatePlan&, int, int64_t, const double*, const double*,
                                   const double* const*, double*);

}  // namespace mlpot
