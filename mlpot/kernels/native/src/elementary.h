// Elementary functions of whole arrays.
#pragma once

#include <cstdint>

namespace mlpot {

// siluN: the N-th derivative of silu.
enum class Function { exp, sin, cos, sigmoid, tanh, silu0, silu1, silu2, silu3 };

// y[i] = f(x[i]); y may be x.
template <class T>
void evaluate(Function f, const T* x, T* y, int64_t n);

}  // namespace mlpot
