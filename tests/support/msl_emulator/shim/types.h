// Address spaces, number and vector types, traits: the part of Metal's language that C++ lacks.
#pragma once
#include "../runtime/interface.h"

#ifdef EMU_AS  // syntax-only pass: address spaces are part of the type
#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define EMU_AS_LIST(X) X(device) X(threadgroup)
#else  // executable pass: one flat address space
#define device
#define constant const
#define threadgroup
#define EMU_AS_LIST(X) X()
#endif
#define thread
#define kernel
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef _Float16 float16_t;

namespace metal {
#ifdef EMU_AS
typedef _Float16 bfloat;
#else
struct bfloat {  // float -> bfloat is explicit, bfloat -> float implicit
  uint16_t b;
  bfloat() = default;
  static uint16_t enc(float f) {
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 64;
    return (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
  }
  explicit bfloat(float f) : b(enc(f)) {}
  explicit bfloat(half f) : b(enc(f)) {}
  template <class I, class = decltype(I() % 2)>
  bfloat(I f) : b(enc(float(f))) {}  // integers only, so that float -> int -> bfloat is no path
  operator float() const {
    uint32_t u = uint32_t(b) << 16;
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
  }
  template <class U>
  explicit operator U() const {
    return U(float(*this));
  }
  // clang-format off
#define EMU_OP(o) friend bfloat operator o(bfloat a, bfloat c) { return bfloat(float(a) o float(c)); } \
  bfloat& operator o##=(bfloat c) { return *this = bfloat(float(*this) o float(c)); }
  EMU_OP(+) EMU_OP(-) EMU_OP(*) EMU_OP(/)
#undef EMU_OP
  // clang-format on
  bfloat operator-() const { return bfloat(-float(*this)); }
};
#endif
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
#define EMU_VEC(T)                                    \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4)));
EMU_VEC(float)
EMU_VEC(half)
EMU_VEC(int)
EMU_VEC(uint)
EMU_VEC(short)
EMU_VEC(ushort)
EMU_VEC(char)
EMU_VEC(uchar)
EMU_VEC(long)
EMU_VEC(ulong)
#define EMU_PACKED(T)                                  \
  struct packed_##T##3 {                               \
    T x, y, z;                                         \
    packed_##T##3() = default;                         \
    packed_##T##3(T a, T b, T c) : x(a), y(b), z(c) {} \
    packed_##T##3(T##3 v) : x(v.x), y(v.y), z(v.z) {}  \
    operator T##3() const { return T##3 {x, y, z}; }   \
    T operator[](int i) const { return (&x)[i]; }      \
  };
EMU_PACKED(float)
EMU_PACKED(half)
EMU_PACKED(int)
EMU_PACKED(uint)
template <class T, size_t N>
struct array {
  T v[N];
  T& operator[](size_t i) { return v[i]; }
  const T& operator[](size_t i) const { return v[i]; }
  constexpr size_t size() const { return N; }
};

// ---- traits ----
template <class A, class B>
struct is_same {
  static constexpr bool value = false;
};
template <class A>
struct is_same<A, A> {
  static constexpr bool value = true;
};
template <class A, class B>
inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool c, class A, class B>
struct conditional {
  typedef A type;
};
template <class A, class B>
struct conditional<false, A, B> {
  typedef B type;
};
template <bool c, class A, class B>
using conditional_t = typename conditional<c, A, B>::type;
template <bool c, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};
template <bool c, class T = void>
using enable_if_t = typename enable_if<c, T>::type;
template <class V>
struct emu_vt {
  static constexpr int n = 0;
  typedef V e;
};
template <class T, int N>
struct emu_vt<T __attribute__((ext_vector_type(N)))> {
  static constexpr int n = N;
  typedef T e;
};
template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float max() { return __FLT_MAX__; }
  static constexpr float lowest() { return -__FLT_MAX__; }
  static constexpr float min() { return __FLT_MIN__; }
  static constexpr float epsilon() { return __FLT_EPSILON__; }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
};
template <>
struct numeric_limits<half> {
  static constexpr half infinity() { return half(__builtin_inff()); }
  static constexpr half max() { return half(65504.f); }
  static constexpr half lowest() { return half(-65504.f); }
};
template <>
struct numeric_limits<int> {
  static constexpr int max() { return 0x7fffffff; }
  static constexpr int min() { return -0x7fffffff - 1; }
};
template <>
struct numeric_limits<uint> {
  static constexpr uint max() { return ~0u; }
  static constexpr uint min() { return 0; }
};

// ---- vector construction: float4(...) is a macro, as clang has no such cast ----
template <class V, class A>
inline void emu_put(V& v, int& i, const A& a) {
  typedef typename emu_vt<V>::e E;
  if constexpr (emu_vt<A>::n == 0)
    v[i++] = E(a);
  else
    for (int k = 0; k < emu_vt<A>::n; ++k) v[i++] = E(a[k]);
}
template <class V, class... A>
inline V emu_mk(const A&... a) {
  constexpr int n = ((emu_vt<A>::n ? emu_vt<A>::n : 1) + ... + 0);
  static_assert(n == emu_vt<V>::n || (n == 1 && sizeof...(A) == 1) || n == 0,
                "wrong number of vector elements");
  V v;
  int i = 0;
  (emu_put(v, i, a), ...);
  if constexpr (n == 1)
    for (int k = 1; k < emu_vt<V>::n; ++k) v[k] = v[0];
  if constexpr (n == 0)
    for (int k = 0; k < emu_vt<V>::n; ++k) v[k] = 0;
  return v;
}
template <class To, class From>
inline To as_type(From f) {
  static_assert(sizeof(To) == sizeof(From), "as_type size");
  To t;
  __builtin_memcpy(&t, &f, sizeof t);
  return t;
}

}  // namespace metal
