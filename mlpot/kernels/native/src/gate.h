// Gates: activated scalars and blocks multiplied by activated scalars, and all derivatives.
#pragma once

#include <cstdint>
#include <vector>

namespace mlpot {

enum class GateFunction { identity, silu, sigmoid, tanh };

// c f(s) of n scalars goes to scalar_out (-1: nowhere) and multiplies the blocks of n columns that
// begin at `in`; the products begin at `out`.
struct GateGroup {
  struct Pair {
    int in, out;
  };
  GateFunction function;
  int n, scalar, scalar_out;
  double constant;
  std::vector<Pair> vectors;
};

struct GatePlan {
  // `integers`: for each group function, n, scalar, scalar_out, number of pairs, the pairs.
  GatePlan(int dim_x, int dim_out, const std::vector<int>& integers,
           const std::vector<double>& constants);

  int dim_x, dim_out;
  std::vector<GateGroup> groups;
};

constexpr int kMostGateOrder = 3;

// out = D^order F(x)[a...], `order` directions.
template <class T>
void gate_out(const GatePlan& plan, int order, int64_t rows, const T* x, const T* const* a, T* out);

// out = gradient of <g, D^order F(x)[a..., b]> to b, order - 1 directions.
template <class T>
void gate_adjoint(const GatePlan& plan, int order, int64_t rows, const T* x, const T* g,
                  const T* const* a, T* out);

}  // namespace mlpot
