// Vectors of the width of this processor, through the vector extensions of GCC and Clang.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define MLPOT_VECTOR_BYTES 64
#elif defined(__AVX2__)
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

// Asks for the n numbers from p on, which will be read soon: rows that an index picks are nothing that
// a processor foresees.
template <class T>
MLPOT_INLINE void fetch(const T* p, int64_t n) {
  constexpr int64_t kNumbersOfALine = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += kNumbersOfALine) __builtin_prefetch(p + i);
}

// The halves of a vector added until one number is left.
template <class T, int BYTES>
struct Lanes {
  static constexpr int half = BYTES / int(sizeof(T)) / 2;
  typedef T Vector __attribute__((vector_size(BYTES)));
  typedef T Half __attribute__((vector_size(BYTES / 2)));

  static MLPOT_INLINE T sum(Vector v) { return add(v, std::make_integer_sequence<int, half>()); }

 private:
  template <int... I>
  static MLPOT_INLINE T add(Vector v, std::integer_sequence<int, I...>) {
#if __has_builtin(__builtin_shufflevector)
    const Half low = __builtin_shufflevector(v, v, I...);
    const Half high = __builtin_shufflevector(v, v, (I + half)...);
#else
    // Through memory, which takes several times as long.
    Half low, high;
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
#endif
    return Lanes<T, BYTES / 2>::sum(low + high);
  }
};
template <class T>
struct Lanes<T, 2 * sizeof(T)> {
  typedef T Vector __attribute__((vector_size(2 * sizeof(T))));
  static MLPOT_INLINE T sum(Vector v) { return v[0] + v[1]; }
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

  // The first n lanes; nothing beyond them is touched.
  static MLPOT_INLINE Vector load_first(const T* p, int n) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
      return (Vector)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
    else
      return (Vector)_mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4)
      return (Vector)_mm256_maskload_ps(p, (__m256i)first(n));
    else
      return (Vector)_mm256_maskload_pd(p, (__m256i)first(n));
#else
    Vector v = {};
    std::memcpy(&v, p, n * sizeof(T));
    return v;
#endif
  }
  static MLPOT_INLINE void store_first(T* p, Vector v, int n) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
      _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), (__m512)v);
    else
      _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), (__m512d)v);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4)
      _mm256_maskstore_ps(p, (__m256i)first(n), (__m256)v);
    else
      _mm256_maskstore_pd(p, (__m256i)first(n), (__m256d)v);
#else
    std::memcpy(p, &v, n * sizeof(T));
#endif
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

  static MLPOT_INLINE T sum(Vector v) { return Lanes<T, MLPOT_VECTOR_BYTES>::sum(v); }
};

}  // namespace mlpot
