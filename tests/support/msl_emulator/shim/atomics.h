// Atomics with the one memory order that Metal has below version 3.2.
#pragma once
#include "types.h"

namespace metal {
enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
  static_assert(is_same_v<T, int> || is_same_v<T, uint> || is_same_v<T, float> ||
                    is_same_v<T, bool> || is_same_v<T, ulong>,
                "MSL has no atomic of this type");
  T v;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
template <class T>
struct emu_id {
  typedef T type;
};
template <class T, class F>
inline T emu_rmw(volatile T* p, F f) {
  T o, n;
  __atomic_load(p, &o, 0);
  do n = f(o);
  while (!__atomic_compare_exchange(p, &o, &n, true, 0, 0));
  return o;
}
#define EMU_RMW(as, name, expr)                                                                 \
  template <class T>                                                                            \
  inline T atomic_fetch_##name##_explicit(volatile as atomic<T>* p, typename emu_id<T>::type b, \
                                          memory_order) {                                       \
    return emu_rmw((volatile T*)&p->v, [=](T a) { return T(expr); });                           \
  }
#define EMU_ATOMICS(as)                                                                         \
  EMU_RMW(as, add, a + b)                                                                       \
  EMU_RMW(as, sub, a - b)                                                                       \
  EMU_RMW(as, max, (a > b ? a : b))                                                             \
  EMU_RMW(as, min, (a < b ? a : b))                                                             \
  EMU_RMW(as, or, a | b)                                                                        \
  EMU_RMW(as, and, a& b)                                                                        \
  EMU_RMW(as, xor, a ^ b)                                                                       \
  template <class T>                                                                            \
  inline T atomic_load_explicit(const volatile as atomic<T>* p, memory_order) {                 \
    T o;                                                                                        \
    __atomic_load((volatile T*)&p->v, &o, 0);                                                   \
    return o;                                                                                   \
  }                                                                                             \
  template <class T>                                                                            \
  inline void atomic_store_explicit(volatile as atomic<T>* p, typename emu_id<T>::type b,       \
                                    memory_order) {                                             \
    __atomic_store((volatile T*)&p->v, &b, 0);                                                  \
  }                                                                                             \
  template <class T>                                                                            \
  inline T atomic_exchange_explicit(volatile as atomic<T>* p, typename emu_id<T>::type b,       \
                                    memory_order) {                                             \
    return emu_rmw((volatile T*)&p->v, [=](T) { return b; });                                   \
  }                                                                                             \
  template <class T>                                                                            \
  inline bool atomic_compare_exchange_weak_explicit(                                            \
      volatile as atomic<T>* p, T* e, typename emu_id<T>::type b, memory_order, memory_order) { \
    return __atomic_compare_exchange((volatile T*)&p->v, e, &b, true, 0, 0);                    \
  }
EMU_AS_LIST(EMU_ATOMICS)

}  // namespace metal
