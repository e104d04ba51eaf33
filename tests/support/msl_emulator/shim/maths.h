// Functions of numbers and vectors: real overloads for float and half, as in Metal, so that calls
// that are ambiguous there are so here; templates for vectors.
#pragma once
#include "types.h"

namespace metal {
#define EMU_V1(name)                                                                 \
  template <class V>                                                                 \
  inline enable_if_t<(emu_vt<V>::n > 0), V> name(V a) {                              \
    V r;                                                                             \
    for (int i = 0; i < emu_vt<V>::n; ++i) r[i] = name(typename emu_vt<V>::e(a[i])); \
    return r;                                                                        \
  }
#define EMU_V2(name)                                                         \
  template <class V>                                                         \
  inline enable_if_t<(emu_vt<V>::n > 0), V> name(V a, V b) {                 \
    V r;                                                                     \
    for (int i = 0; i < emu_vt<V>::n; ++i)                                   \
      r[i] = name(typename emu_vt<V>::e(a[i]), typename emu_vt<V>::e(b[i])); \
    return r;                                                                \
  }
#define EMU_V3(name)                                                        \
  template <class V>                                                        \
  inline enable_if_t<(emu_vt<V>::n > 0), V> name(V a, V b, V c) {           \
    V r;                                                                    \
    for (int i = 0; i < emu_vt<V>::n; ++i)                                  \
      r[i] = name(typename emu_vt<V>::e(a[i]), typename emu_vt<V>::e(b[i]), \
                  typename emu_vt<V>::e(c[i]));                             \
    return r;                                                               \
  }
#ifdef EMU_AS
#define EMU_BF(...)
#else
#define EMU_BF(...) __VA_ARGS__
#endif
#define EMU_F1(name, expr)                    \
  inline float name(float a) { return expr; } \
  inline half name(half x) {                  \
    float a = x;                              \
    return half(expr);                        \
  }                                           \
  EMU_BF(inline bfloat name(bfloat x) {       \
    float a = x;                              \
    return bfloat(expr);                      \
  })                                          \
  EMU_V1(name)
#define EMU_F2(name, expr)                             \
  inline float name(float a, float b) { return expr; } \
  inline half name(half x, half y) {                   \
    float a = x, b = y;                                \
    return half(expr);                                 \
  }                                                    \
  EMU_BF(inline bfloat name(bfloat x, bfloat y) {      \
    float a = x, b = y;                                \
    return bfloat(expr);                               \
  })                                                   \
  EMU_V2(name)
#define EMU_F3(name, expr)                                      \
  inline float name(float a, float b, float c) { return expr; } \
  inline half name(half x, half y, half z) {                    \
    float a = x, b = y, c = z;                                  \
    return half(expr);                                          \
  }                                                             \
  EMU_V3(name)
#define EMU_MATH                           \
  EMU_F1(sqrt, __builtin_sqrtf(a))         \
  EMU_F1(rsqrt, 1.0f / __builtin_sqrtf(a)) \
  EMU_F1(exp, __builtin_expf(a))           \
  EMU_F1(exp2, __builtin_exp2f(a))         \
  EMU_F1(exp10, __builtin_powf(10.0f, a))  \
  EMU_F1(log, __builtin_logf(a))           \
  EMU_F1(log2, __builtin_log2f(a))         \
  EMU_F1(log10, __builtin_log10f(a))       \
  EMU_F1(sin, __builtin_sinf(a))           \
  EMU_F1(cos, __builtin_cosf(a))           \
  EMU_F1(tan, __builtin_tanf(a))           \
  EMU_F1(asin, __builtin_asinf(a))         \
  EMU_F1(acos, __builtin_acosf(a))         \
  EMU_F1(atan, __builtin_atanf(a))         \
  EMU_F1(sinh, __builtin_sinhf(a))         \
  EMU_F1(cosh, __builtin_coshf(a))         \
  EMU_F1(tanh, __builtin_tanhf(a))         \
  EMU_F1(fabs, __builtin_fabsf(a))         \
  EMU_F1(ceil, __builtin_ceilf(a))         \
  EMU_F1(floor, __builtin_floorf(a))       \
  EMU_F1(round, __builtin_roundf(a))       \
  EMU_F1(rint, __builtin_rintf(a))         \
  EMU_F1(trunc, __builtin_truncf(a))       \
  EMU_F1(fract, (a - __builtin_floorf(a))) \
  EMU_F2(pow, __builtin_powf(a, b))        \
  EMU_F2(powr, __builtin_powf(a, b))       \
  EMU_F2(fmod, __builtin_fmodf(a, b))      \
  EMU_F2(atan2, __builtin_atan2f(a, b))    \
  EMU_F2(fmax, __builtin_fmaxf(a, b))      \
  EMU_F2(fmin, __builtin_fminf(a, b))
EMU_MATH
namespace precise {
EMU_MATH
}
namespace fast {
EMU_MATH
}
EMU_F1(sign, (a > 0 ? 1.0f : a < 0 ? -1.0f : 0.0f))
EMU_F1(saturate, (a < 0 ? 0.0f : a > 1 ? 1.0f : a))
EMU_F1(abs, __builtin_fabsf(a))
EMU_F2(copysign, __builtin_copysignf(a, b))
EMU_F2(step, (b < a ? 0.0f : 1.0f))
EMU_F3(fma, __builtin_fmaf(a, b, c))
EMU_F3(mix, (a + (b - a) * c))
EMU_F2(max, __builtin_fmaxf(a, b))
EMU_F2(min, __builtin_fminf(a, b))
EMU_F3(clamp, __builtin_fminf(__builtin_fmaxf(a, b), c))
#define EMU_I(T)                                   \
  inline T max(T a, T b) { return a > b ? a : b; } \
  inline T min(T a, T b) { return a < b ? a : b; } \
  inline T clamp(T a, T b, T c) { return min(max(a, b), c); }
EMU_I(int)
EMU_I(uint)
EMU_I(short)
EMU_I(ushort)
EMU_I(char)
EMU_I(uchar)
EMU_I(long)
EMU_I(ulong)
inline int abs(int a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline uint popcount(uint a) { return __builtin_popcount(a); }
inline uint clz(uint a) { return a ? __builtin_clz(a) : 32; }
inline uint ctz(uint a) { return a ? __builtin_ctz(a) : 32; }
inline uint mulhi(uint a, uint b) { return (ulong(a) * b) >> 32; }
inline bool isnan(float a) { return __builtin_isnan(a); }
inline bool isinf(float a) { return __builtin_isinf(a); }
inline bool isfinite(float a) { return __builtin_isfinite(a); }
inline float ldexp(float a, int e) { return __builtin_ldexpf(a, e); }
template <class T>
inline enable_if_t<emu_vt<T>::n == 0, T> select(T a, T b, bool c) {
  return c ? b : a;
}
template <class V, class C>
inline enable_if_t<(emu_vt<V>::n > 0), V> select(V a, V b, C c) {
  V r;
  for (int i = 0; i < emu_vt<V>::n; ++i) r[i] = c[i] ? b[i] : a[i];
  return r;
}
template <class V>
inline typename emu_vt<V>::e dot(V a, V b) {
  typename emu_vt<V>::e s = 0;
  for (int i = 0; i < emu_vt<V>::n; ++i) s += a[i] * b[i];
  return s;
}
template <class V>
inline typename emu_vt<V>::e length_squared(V a) {
  return dot(a, a);
}
template <class V>
inline typename emu_vt<V>::e length(V a) {
  return sqrt(dot(a, a));
}
template <class V>
inline V normalize(V a) {
  return a * rsqrt(dot(a, a));
}
inline float3 cross(float3 a, float3 b) { return a.yzx * b.zxy - a.zxy * b.yzx; }
template <class V>
inline bool any(V a) {
  for (int i = 0; i < emu_vt<V>::n; ++i)
    if (a[i]) return true;
  return false;
}
template <class V>
inline bool all(V a) {
  for (int i = 0; i < emu_vt<V>::n; ++i)
    if (!a[i]) return false;
  return true;
}

}  // namespace metal
