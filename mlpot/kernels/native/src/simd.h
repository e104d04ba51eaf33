// Vectors of the width of this processor, through the vector extensions of GCC and Clang.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define MLPOT_VECTOR_BYTES 64
#elif defined(__AVX__)
#define MLPOT_VECTOR_BYTES 32
#else
#define MLPOT_VECTOR_BYTES 16
#endif

#define MLPOT_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define MLPOT_UNROLL _Pragma("unroll")
#else
#define MLPOT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mlpot {

// With 32 registers (AVX-512, ARM) more accumulators fit than with 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

template <class T>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <>
struct IntegerOf<double> {
  using type = int64_t;
};

template <class T>
struct Simd {
  static constexpr int lanes = MLPOT_VECTOR_BYTES / sizeof(T);
  using Integer = typename IntegerOf<T>::type;
  typedef T Vector __attribute__((vector_size(MLPOT_VECTOR_BYTES)));
  typedef Integer Bits __attribute__((vector_size(MLPOT_VECTOR_BYTES)));
  typedef T Unaligned
      __attribute__((vector_size(MLPOT_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

  static MLPOT_INLINE Vector load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static MLPOT_INLINE void store(T* p, Vector v) { *reinterpret_cast<Unaligned*>(p) = v; }

  static MLPOT_INLINE Vector load_first(const T* p, int n) {
    Vector v = {};
    std::memcpy(&v, p, n * sizeof(T));
    return v;
  }
  static MLPOT_INLINE void store_first(T* p, Vector v, int n) {
    std::memcpy(p, &v, n * sizeof(T));
  }

  static MLPOT_INLINE Vector all(T value) { return Vector{} + value; }

  // All bits set in the first n lanes.
  static MLPOT_INLINE Bits first(int n) {
    Bits index = {};
    for (int i = 0; i < lanes; i++) index[i] = i;
    return index < (Bits{} + Integer(n));
  }
  static MLPOT_INLINE Vector keep(Vector v, Bits mask) { return (Vector)((Bits)v & mask); }

  static MLPOT_INLINE Vector choose(Bits mask, Vector yes, Vector no) {
    return (Vector)(((Bits)yes & mask) | ((Bits)no & ~mask));
  }

  static MLPOT_INLINE T sum(Vector v) {
    T part[lanes];
    std::memcpy(part, &v, sizeof v);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
  }
};

}  // namespace mlpot
