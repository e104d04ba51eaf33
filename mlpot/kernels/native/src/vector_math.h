// exp, sin, cos, tanh and the logistic function of vectors, to about one unit in the last place.
//
// Arguments are reduced with the exact bits of ln 2 and pi / 2; the rest is the Taylor series.
#pragma once

#include <array>

#include "simd.h"

namespace mlpot {

template <class T>
using Vec = typename Simd<T>::Vector;
template <class T>
using Bits = typename Simd<T>::Bits;

// Adding `round` = 1.5 * 2^mantissa leaves the nearest integer in the low bits of a sum. ln 2 and
// pi / 2 are cut into parts with trailing zeros: their products with small integers are exact.
template <class T>
struct Constants;

template <>
struct Constants<float> {
  static constexpr int mantissa = 23, bias = 127;
  static constexpr int exp_degree = 7, sin_degree = 9, cos_degree = 10;
  static constexpr float round = 12582912.f;
  static constexpr float ln2[2] = {0x1.62ep-1f, 0x1.0bfbe8p-15f};
  static constexpr float half_pi[4] = {0x1.92p+0f, 0x1.fb4p-12f, 0x1.444p-24f, 0x1.68c234p-39f};
  static constexpr float exp_low = -104.f, exp_high = 89.f;  // 0 and infinity beyond
  static constexpr float largest_angle = 1000.f;
};

template <>
struct Constants<double> {
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr int exp_degree = 13, sin_degree = 17, cos_degree = 18;
  static constexpr double round = 6755399441055744.0;
  static constexpr double ln2[2] = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};
  static constexpr double half_pi[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
  static constexpr double exp_low = -746., exp_high = 710.;
  static constexpr double largest_angle = 100000.;
};

constexpr std::array<double, 20> kInverseFactorial = [] {
  std::array<double, 20> values{1};
  double factorial = 1;
  for (int k = 1; k < 20; k++) values[k] = 1 / (factorial *= k);
  return values;
}();

// 2^n, n within the exponents of normal numbers.
template <class T>
MLPOT_INLINE Vec<T> power_of_two(Bits<T> n) {
  return (Vec<T>)((n + Constants<T>::bias) << Constants<T>::mantissa);
}

// The integer nearest to x * scale, as a number and in its bits.
template <class T>
MLPOT_INLINE Vec<T> nearest(Vec<T> x, T scale, Bits<T>& n) {
  const Vec<T> shifted = x * scale + Constants<T>::round;
  n = (Bits<T>)shifted - (Bits<T>)Simd<T>::all(Constants<T>::round);
  return shifted - Constants<T>::round;
}

// x = n ln 2 + r; returns e^r - 1.
template <class T>
MLPOT_INLINE Vec<T> expm1_of_rest(Vec<T> x, Bits<T>& n) {
  using C = Constants<T>;
  const Vec<T> whole = nearest<T>(x, T(1.4426950408889634), n);
  const Vec<T> r = (x - whole * C::ln2[0]) - whole * C::ln2[1];
  Vec<T> p = Simd<T>::all(T(kInverseFactorial[C::exp_degree]));
  MLPOT_UNROLL
  for (int k = C::exp_degree - 1; k >= 2; k--) p = p * r + T(kInverseFactorial[k]);
  return p * r * r + r;
}

template <class T>
MLPOT_INLINE Vec<T> vexp(Vec<T> x) {
  using C = Constants<T>;
  using S = Simd<T>;
  const Vec<T> low = S::all(C::exp_low), high = S::all(C::exp_high);
  x = S::choose(x < low, low, x);  // a NaN passes
  x = S::choose(x > high, high, x);
  Bits<T> n;
  const Vec<T> value = expm1_of_rest<T>(x, n) + T(1);
  // In two factors: 2^n may itself be infinite or subnormal.
  const Bits<T> half = n >> 1;
  return value * power_of_two<T>(half) * power_of_two<T>(n - half);
}

// s = 1 / (1 + e^-x) and t = 1 - s, each with full relative accuracy where it is small.
template <class T>
MLPOT_INLINE void logistic(Vec<T> x, Vec<T>& s, Vec<T>& t) {
  using S = Simd<T>;
  const Bits<T> negative = x < Vec<T>{};
  const Vec<T> e = vexp<T>(S::choose(negative, x, -x));
  const Vec<T> large = T(1) / (T(1) + e), small = e * large;
  s = S::choose(negative, small, large);
  t = S::choose(negative, large, small);
}

// With m = e^(-2|x|) - 1, tanh |x| = -m / (m + 2); m is made without cancellation near zero.
template <class T>
MLPOT_INLINE Vec<T> vtanh(Vec<T> x) {
  using S = Simd<T>;
  const Bits<T> negative = x < Vec<T>{};
  const Vec<T> enough = S::all(T(-80));
  Vec<T> exponent = T(2) * S::choose(negative, x, -x);
  exponent = S::choose(exponent < enough, enough, exponent);
  Bits<T> n;
  const Vec<T> rest = expm1_of_rest<T>(exponent, n), scale = power_of_two<T>(n);
  const Vec<T> m = rest * scale + (scale - T(1)), value = m / (m + T(2));
  return S::choose(negative, value, -value);
}

// sin (quarter = 0) or cos (quarter = 1) for |x| up to `largest_angle`.
template <class T>
MLPOT_INLINE Vec<T> vsin(Vec<T> x, int quarter) {
  using C = Constants<T>;
  using S = Simd<T>;
  Bits<T> n;
  const Vec<T> whole = nearest<T>(x, T(0.63661977236758134), n);
  Vec<T> r = x;
  for (T part : C::half_pi) r -= whole * part;
  const Vec<T> r2 = -(r * r);
  Vec<T> sine = S::all(T(kInverseFactorial[C::sin_degree]));
  MLPOT_UNROLL
  for (int k = C::sin_degree - 2; k >= 3; k -= 2) sine = sine * r2 + T(kInverseFactorial[k]);
  sine = sine * r2 * r + r;
  Vec<T> cosine = S::all(T(kInverseFactorial[C::cos_degree]));
  MLPOT_UNROLL
  for (int k = C::cos_degree - 2; k >= 0; k -= 2) cosine = cosine * r2 + T(kInverseFactorial[k]);
  n += quarter;
  const Vec<T> value = S::choose((n & 1) != 0, cosine, sine);
  return S::choose((n & 2) != 0, -value, value);
}

}  // namespace mlpot
