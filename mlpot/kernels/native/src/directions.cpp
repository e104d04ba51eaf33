#include "directions.h"

#include <cmath>

#include "threads.h"

namespace mlpot {
namespace {

constexpr int64_t kVectorsOfAChunk = 1024;
constexpr int64_t kOperationsOfAVector = 12;
constexpr double kShortest = 1e-12;

template <class T>
struct Vector3 {
  T at[3];
  explicit Vector3(const T* p) : at{p[0], p[1], p[2]} {}
};

template <class T>
T dot(const Vector3<T>& a, const Vector3<T>& b) {
  return a.at[0] * b.at[0] + a.at[1] * b.at[1] + a.at[2] * b.at[2];
}

// D^order u along a, at row i.
template <class T>
void derivative(int order, const Vector3<T>& u, T inverse, const T* const* a, int64_t i, T d[3]) {
  const auto row = [&](int k) { return Vector3<T>(a[k] + 3 * i); };
  if (order == 0) {
    for (int c = 0; c < 3; c++) d[c] = u.at[c];
  } else if (order == 1) {
    const auto x = row(0);
    const T p = dot(u, x);
    for (int c = 0; c < 3; c++) d[c] = (x.at[c] - p * u.at[c]) * inverse;
  } else if (order == 2) {
    const auto x = row(0), y = row(1);
    const T p = dot(u, x), q = dot(u, y), along = T(3) * p * q - dot(x, y);
    for (int c = 0; c < 3; c++)
      d[c] = (along * u.at[c] - p * y.at[c] - q * x.at[c]) * inverse * inverse;
  } else {
    const Vector3<T> x[3] = {row(0), row(1), row(2)};
    const T p[3] = {dot(u, x[0]), dot(u, x[1]), dot(u, x[2])};
    const T q[3] = {dot(x[1], x[2]), dot(x[0], x[2]), dot(x[0], x[1])};
    const T along =
        T(3) * (q[0] * p[0] + q[1] * p[1] + q[2] * p[2]) - T(15) * p[0] * p[1] * p[2];
    for (int c = 0; c < 3; c++) {
      T sum = along * u.at[c];
      for (int k = 0; k < 3; k++)
        sum += (T(3) * p[(k + 1) % 3] * p[(k + 2) % 3] - q[k]) * x[k].at[c];
      d[c] = sum * inverse * inverse * inverse;
    }
  }
}

}  // namespace

template <class T>
void directions(DirectionMap map, int order, int64_t n, const T* v, const T* g, const T* const* a,
                T* out) {
  parallel(n, kVectorsOfAChunk, n * kOperationsOfAVector, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t i = begin; i < end; i++) {
        Vector3<T> u(v + 3 * i);
        const T squared = dot(u, u);
        const bool is_short = squared < T(kShortest * kShortest);
        const T root = std::sqrt(squared), inverse = is_short ? T(0) : T(1) / root;
        if (map == DirectionMap::length && order == 0) {
          out[i] = is_short ? T(kShortest) : root;
          continue;
        }
        for (T& component : u.at) component *= inverse;
        T d[3];
        if (map == DirectionMap::direction) {
          derivative(order, u, inverse, a, i, out + 3 * i);
        } else {
          derivative(order - 1, u, inverse, a, i, d);
          if (map == DirectionMap::length) {
            const T* last = a[order - 1] + 3 * i;
            out[i] = d[0] * last[0] + d[1] * last[1] + d[2] * last[2];
          } else {
            for (int c = 0; c < 3; c++) out[3 * i + c] = g[i] * d[c];
          }
        }
      }
  });
}

template void directions<float>(DirectionMap, int, int64_t, const float*, const float*,
                                const float* const*, float*);
template void directions<double>(DirectionMap, int, int64_t, const double*, const double*,
                                 const double* const*, double*);

}  // namespace mlpot
