// Intervals of distances on a piecewise uniform grid, and powers of the place within them.
#pragma once

#include <cstdint>
#include <vector>

namespace mlpot {

constexpr int kPowers = 6;
constexpr int kMostIntervalOrder = 3;

struct IntervalPlan {
  IntervalPlan(double cutoff, const std::vector<double>& starts, const std::vector<double>& steps,
               const std::vector<int>& bounds, const std::vector<double>& left,
               const std::vector<double>& inverse)
      : cutoff(cutoff), starts(starts), steps(steps), bounds(bounds), left(left),
        inverse(inverse) {}

  double cutoff;
  std::vector<double> starts, steps;  // of each piece; steps: intervals for a unit of distance
  std::vector<int> bounds;            // first interval of each piece, and the number of all
  std::vector<double> left, inverse;  // of each interval: where t = 0, 1 / width
};

// rows[i] = 6 (interval + kinds[i] n_intervals); kinds may be null.
template <class T>
void locate(const IntervalPlan& plan, int64_t n, const T* r, const int32_t* kinds, int32_t* rows);

// The derivative of t^m of this order by r, times the directions; (n, 6).
template <class T>
void interval_out(const IntervalPlan& plan, int order, int64_t n, const T* r, const T* const* a,
                  const int32_t* rows, T* out);

// sum_m g[i, m] times that, with order - 1 directions; (n).
template <class T>
void interval_adjoint(const IntervalPlan& plan, int order, int64_t n, const T* r, const T* g,
                      const T* const* a, const int32_t* rows, T* out);

}  // namespace mlpot
