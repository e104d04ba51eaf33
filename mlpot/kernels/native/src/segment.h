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

// out[s] = sum of x[i] over the i with index[i] == s
template <class T>
void sum_segments(const T* x, const int32_t* index, int64_t n, int64_t n_segments, int64_t width,
                  T* out) {
  check_index(index, n, n_segments);
  // Rows by segment, each segment's in their order: a counting sort.
  std::vector<int64_t> begin_of(n_segments + 1, 0);
  for (int64_t i = 0; i < n; i++) begin_of[index[i] + 1]++;
  std::partial_sum(begin_of.begin(), begin_of.end(), begin_of.begin());
  std::vector<int64_t> row(n);
  std::vector<int64_t> next(begin_of.begin(), begin_of.end() - 1);
  for (int64_t i = 0; i < n; i++) row[next[index[i]]++] = i;

  const int64_t rows_a_segment = n / std::max<int64_t>(1, n_segments) + 1;
  const int64_t work = (n + n_segments) * (width / Simd<T>::lanes + 1);
  parallel(n_segments, rows_of_a_chunk(width * rows_a_segment), work, [&](Chunks& chunks) {
    int64_t begin, end;
    while (chunks.next(begin, end)) {
      std::fill(out + begin * width, out + end * width, T(0));
      for (int64_t s = begin; s < end; s++)
        for (int64_t at = begin_of[s]; at < begin_of[s + 1]; at++) {
          const T* from = x + row[at] * width;
          T* to = out + s * width;
          for (int64_t c = 0; c < width; c++) to[c] += from[c];
        }
    }
  });
}

}  // namespace mlpot
