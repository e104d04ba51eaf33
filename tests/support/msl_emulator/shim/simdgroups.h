// Functions that threads of a simdgroup or threadgroup do together.
#pragma once
#include "types.h"

namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
#define EMU_L int line = __builtin_LINE()
inline void threadgroup_barrier(mem_flags f, EMU_L) { emu_barrier(line, unsigned(f)); }
inline void simdgroup_barrier(mem_flags f, EMU_L) {
  char c = 0;
  emu_simd(&c, 1, line, "simdgroup_barrier", 1 + unsigned(f));
}
template <class T>
struct emu_l {
  const emu_lanes* l;
  emu_l(T v, int line, const char* op) : l(emu_simd(&v, sizeof v, line, op, 0)) {
    static_assert(sizeof(T) <= 16, "simd type");
  }
  bool on(uint i) const { return i < 32 && (l->mask >> i & 1); }
  T get(uint i) const {
    T r;
    __builtin_memcpy(&r, l->data[i & 31], sizeof r);
    return r;
  }
  uint me() const { return l->self; }
  T pick(uint i, const char* op, int line) const {
    if (!on(i)) {
      emu_note(op, line);
      unsigned char j[16];
      for (auto& c : j) c = 0xff;
      T r;
      __builtin_memcpy(&r, j, sizeof r);
      return r;
    }
    return get(i);
  }
};
template <class T, class F>
inline T emu_red(T v, int line, const char* op, F f) {
  emu_l<T> a(v, line, op);
  bool first = true;
  T r = v;
  for (uint i = 0; i < 32; ++i)
    if (a.on(i)) {
      r = first ? a.get(i) : T(f(r, a.get(i)));
      first = false;
    }
  return r;
}
#define EMU_RED(name, expr)                                                \
  template <class T>                                                       \
  inline T simd_##name(T v, EMU_L) {                                       \
    return emu_red(v, line, "simd_" #name, [](T a, T b) { return expr; }); \
  }
EMU_RED(sum, a + b)
EMU_RED(product, a* b)
EMU_RED(max, (a > b ? a : b))
EMU_RED(min, (a < b ? a : b))
EMU_RED(or, a | b)
EMU_RED(and, a& b)
EMU_RED(xor, a ^ b)
template <class T>
inline T simd_broadcast(T v, ushort i, EMU_L) {
  emu_l<T> a(v, line, "simd_broadcast");
  return a.pick(i, "simd_broadcast from inactive lane", line);
}
template <class T>
inline T simd_broadcast_first(T v, EMU_L) {
  emu_l<T> a(v, line, "simd_broadcast_first");
  return a.get(__builtin_ctz(a.l->mask));
}
template <class T>
inline T simd_shuffle(T v, ushort i, EMU_L) {
  emu_l<T> a(v, line, "simd_shuffle");
  return a.pick(i, "simd_shuffle from inactive lane", line);
}
template <class T>
inline T simd_shuffle_xor(T v, ushort i, EMU_L) {
  emu_l<T> a(v, line, "simd_shuffle_xor");
  return a.pick(a.me() ^ i, "simd_shuffle_xor from inactive lane", line);
}
template <class T>
inline T simd_shuffle_down(T v, ushort i, EMU_L) {
  emu_l<T> a(v, line, "simd_shuffle_down");
  return a.me() + i > 31 ? v : a.pick(a.me() + i, "simd_shuffle_down from inactive lane", line);
}
template <class T>
inline T simd_shuffle_up(T v, ushort i, EMU_L) {
  emu_l<T> a(v, line, "simd_shuffle_up");
  return a.me() < i ? v : a.pick(a.me() - i, "simd_shuffle_up from inactive lane", line);
}
template <class T>
inline T simd_prefix_inclusive_sum(T v, EMU_L) {
  emu_l<T> a(v, line, "simd_prefix_inclusive_sum");
  T s = T(0);
  for (uint i = 0; i <= a.me(); ++i)
    if (a.on(i)) s = s + a.get(i);
  return s;
}
template <class T>
inline T simd_prefix_exclusive_sum(T v, EMU_L) {
  emu_l<T> a(v, line, "simd_prefix_exclusive_sum");
  T s = T(0);
  for (uint i = 0; i < a.me(); ++i)
    if (a.on(i)) s = s + a.get(i);
  return s;
}
inline bool simd_any(bool v, EMU_L) {
  return emu_red(v, line, "simd_any", [](bool a, bool b) { return a || b; });
}
inline bool simd_all(bool v, EMU_L) {
  return emu_red(v, line, "simd_all", [](bool a, bool b) { return a && b; });
}
}  // namespace metal
