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

// How many rows ahead are asked for: where an index picks them, a processor does not foresee them.
constexpr int64_t kRowsAhead = 4;

// The sums of one segment over the next NB vectors of columns, in registers, then over those left.
// `row` holds the members of all segments, those of this one from `first` to `last`, or is null where
// a row is its own place.
template <class T, int NB>
MLPOT_INLINE void sum_members(const T* x, const int32_t* row, int64_t first, int64_t last, int64_t n,
                              int64_t width, int64_t& column, T* to) {
  using S = Simd<T>;
  for (; column + NB * S::lanes <= width; column += NB * S::lanes) {
    typename S::Vector sum[NB] = {};
    for (int64_t i = first; i < last; i++) {
      if (NB > 1 && row && i + kRowsAhead < n)
        fetch(x + row[i + kRowsAhead] * width + column, NB * S::lanes);
      const T* from = x + (row ? row[i] : i) * width + column;
      MLPOT_UNROLL
      for (int b = 0; b < NB; b++) sum[b] += S::load(from + b * S::lanes);
    }
    MLPOT_UNROLL
    for (int b = 0; b < NB; b++) S::store(to + column + b * S::lanes, sum[b]);
  }
}

template <class T>
void sum_by_segment(const T* x, const int32_t* row, const int64_t* begin_of, int64_t n,
                    int64_t n_segments, int64_t width, T* out) {
  using S = Simd<T>;
  const int64_t rows_a_segment = n / std::max<int64_t>(1, n_segments) + 1;
  const int64_t work = (n + n_segments) * (width / S::lanes + 1);
  parallel(n_segments, rows_of_a_chunk(width * rows_a_segment), work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end))
      for (int64_t s = begin; s < end; s++) {
        const int64_t first = begin_of[s], last = begin_of[s + 1];
        T* to = out + s * width;
        int64_t column = 0;
        sum_members<T, 8>(x, row, first, last, n, width, column, to);
        sum_members<T, 4>(x, row, first, last, n, width, column, to);
        sum_members<T, 2>(x, row, first, last, n, width, column, to);
        sum_members<T, 1>(x, row, first, last, n, width, column, to);
        if (const int left = int(width - column)) {
          typename S::Vector sum = {};
          for (int64_t i = first; i < last; i++)
            sum += S::load_first(x + (row ? row[i] : i) * width + column, left);
          S::store_first(to + column, sum, left);
        }
      }
  });
}

// out[s] = sum of x[i] over the i with index[i] == s, in the order of i
template <class T>
void sum_segments(const T* x, const int32_t* index, int64_t n, int64_t n_segments, int64_t width,
                  T* out) {
  check_index(index, n, n_segments);
  std::vector<int64_t> begin_of(n_segments + 1, 0);
  for (int64_t i = 0; i < n; i++) begin_of[index[i] + 1]++;
  std::partial_sum(begin_of.begin(), begin_of.end(), begin_of.begin());
  if (std::is_sorted(index, index + n))
    return sum_by_segment<T>(x, nullptr, begin_of.data(), n, n_segments, width, out);
  // Rows by segment, each segment's in their order: a counting sort.
  std::vector<int32_t> row(n);
  std::vector<int64_t> next(begin_of.begin(), begin_of.end() - 1);
  for (int64_t i = 0; i < n; i++) row[next[index[i]]++] = int32_t(i);
  sum_by_segment(x, row.data(), begin_of.data(), n, n_segments, width, out);
}

}  // namespace mlpot
