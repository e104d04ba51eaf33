// Gather of rows, and sums of the rows that share an index, in the order of the rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "simd.h"
#include "threads.h"

namespace mlpot {

constexpr int64_t kElementsOfAChunk = 16384;

inline void check_index(const int32_t* index, int64_t n, int64_t limit) {
  bool inside = true;  // without a way out, so that it is vectorised
  for (int64_t i = 0; i < n; i++) inside &= index[i] >= 0 && index[i] < limit;
  if (inside) return;
  for (int64_t i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= limit)
      throw std::out_of_range("index " + std::to_string(index[i]) + " is outside 0.." +
                              std::to_string(limit - 1));
}

inline int64_t rows_of_a_chunk(int64_t width) {
  return std::max<int64_t>(1, kElementsOfAChunk / std::max<int64_t>(1, width));
}

// out[i] = x[index[i]]
template <class T>
void gather_rows(const T* x, const int32_t* index, int64_t n, int64_t n_rows, int64_t width,
                 T* out) {
  check_index(index, n, n_rows);
  parallel(n, rows_of_a_chunk(width), n * width / Simd<T>::lanes, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t i = begin; i < end; i++)
        std::copy_n(x + index[i] * width, width, out + i * width);
  });
}

// Sums of this many bytes stay in the second-level cache while rows are added to them in any order.
constexpr int64_t kBytesOfCachedSums = 1 << 19;

// The rows of x are read once, in their order. Threads share the columns: each sum is still made
// in the order of the rows.
template <class T>
void add_rows(const T* x, const int32_t* index, int64_t n, int64_t n_segments, int64_t width,
              T* out) {
  using S = Simd<T>;
  constexpr int64_t L = S::lanes;
  const int64_t n_threads = std::max(1, num_threads());
  const int64_t vectors = std::max<int64_t>(1, (width / L + n_threads - 1) / n_threads);
  const int64_t work = (n + n_segments) * (width / L + 1);
  parallel(width, vectors * L, work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end)) {
      for (int64_t s = 0; s < n_segments; s++)
        std::fill(out + s * width + begin, out + s * width + end, T(0));
      for (int64_t i = 0; i < n; i++) {
        const T* from = x + i * width;
        T* to = out + int64_t(index[i]) * width;
        int64_t c = begin;
        for (; c + L <= end; c += L) S::store(to + c, S::load(to + c) + S::load(from + c));
        for (; c < end; c++) to[c] += from[c];
      }
    }
  });
}

// One segment after the other, its sums in registers. Members first .. last - 1 are rows row[i], or
// i itself where row is null.
template <class T, int NB>
MLPOT_INLINE void sum_members(const T* x, const int64_t* row, int64_t first, int64_t last,
                              int64_t width, T* to) {
  using S = Simd<T>;
  typename S::Vector sum[NB] = {};
  for (int64_t i = first; i < last; i++) {
    const T* from = x + (row ? row[i] : i) * width;
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) sum[b] += S::load(from + b * S::lanes);
  }
  MLPOT_UNROLL
  for (int b = 0; b < NB; b++) S::store(to + b * S::lanes, sum[b]);
}

template <class T>
void sum_by_segment(const T* x, const int64_t* row, const int64_t* begin_of, int64_t n,
                    int64_t n_segments, int64_t width, T* out) {
  constexpr int64_t L = Simd<T>::lanes;
  const int64_t rows_a_segment = n / std::max<int64_t>(1, n_segments) + 1;
  const int64_t work = (n + n_segments) * (width / L + 1);
  parallel(n_segments, rows_of_a_chunk(width * rows_a_segment), work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t s = begin; s < end; s++) {
        const int64_t first = begin_of[s], last = begin_of[s + 1];
        T* to = out + s * width;
        int64_t c = 0;
        for (; c + 8 * L <= width; c += 8 * L)
          sum_members<T, 8>(x + c, row, first, last, width, to + c);
        for (; c + L <= width; c += L) sum_members<T, 1>(x + c, row, first, last, width, to + c);
        for (; c < width; c++) {
          T sum = 0;
          for (int64_t i = first; i < last; i++) sum += x[(row ? row[i] : i) * width + c];
          to[c] = sum;
        }
      }
  });
}

// out[s] = sum of x[i] over the i with index[i] == s, in the order of i
template <class T>
void sum_segments(const T* x, const int32_t* index, int64_t n, int64_t n_segments, int64_t width,
                  T* out) {
  check_index(index, n, n_segments);
  const bool sorted = std::is_sorted(index, index + n);
  if (!sorted && n_segments * width * int64_t(sizeof(T)) <= kBytesOfCachedSums)
    return add_rows(x, index, n, n_segments, width, out);
  std::vector<int64_t> begin_of(n_segments + 1, 0);
  for (int64_t i = 0; i < n; i++) begin_of[index[i] + 1]++;
  std::partial_sum(begin_of.begin(), begin_of.end(), begin_of.begin());
  if (sorted) return sum_by_segment<T>(x, nullptr, begin_of.data(), n, n_segments, width, out);
  // Rows by segment, each segment's in their order: a counting sort.
  std::vector<int64_t> row(n);
  std::vector<int64_t> next(begin_of.begin(), begin_of.end() - 1);
  for (int64_t i = 0; i < n; i++) row[next[index[i]]++] = i;
  sum_by_segment(x, row.data(), begin_of.data(), n, n_segments, width, out);
}

}  // namespace mlpot
