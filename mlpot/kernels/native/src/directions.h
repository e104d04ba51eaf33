// Lengths and directions of vectors and their derivatives; see mlpot/kernels/directions.py.
#pragma once

#include <cstdint>

namespace mlpot {

enum class DirectionMap { direction, length, length_adjoint };

constexpr int kMostDirectionOrder = 3;

// v, a[i] (n, 3); g (n) for length_adjoint; out (n, 3), or (n) for length.
template <class T>
void directions(DirectionMap map, int order, int64_t n, const T* v, const T* g, const T* const* a,
                T* out);

}  // namespace mlpot
