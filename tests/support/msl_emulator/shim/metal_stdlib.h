// The part of <metal_stdlib> that compute kernels use, for clang++ on Linux. Nothing of the C++
// library is included, so `std`, double precision and the overloads of <cmath> are absent, as in
// Metal.
#pragma once
#include "types.h"
// In this order.
#include "maths.h"
#include "atomics.h"
#include "simdgroups.h"

using namespace metal;
typedef bfloat bfloat16_t;
#define METAL_FUNC inline __attribute__((__always_inline__))
// Of the preamble that MLX puts before each kernel.
template <class T, class U>
inline T ceildiv(T n, U m) {
  return (n + m - 1) / m;
}
inline uint3 emu_v3(emu_uint3 u) { return uint3{u.x, u.y, u.z}; }
#define M_PI_F 3.14159274101257324219f
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define float2(...) emu_mk<float2>(__VA_ARGS__)
#define float3(...) emu_mk<float3>(__VA_ARGS__)
#define float4(...) emu_mk<float4>(__VA_ARGS__)
#define half2(...) emu_mk<half2>(__VA_ARGS__)
#define half3(...) emu_mk<half3>(__VA_ARGS__)
#define half4(...) emu_mk<half4>(__VA_ARGS__)
#define int2(...) emu_mk<int2>(__VA_ARGS__)
#define int3(...) emu_mk<int3>(__VA_ARGS__)
#define int4(...) emu_mk<int4>(__VA_ARGS__)
#define uint2(...) emu_mk<uint2>(__VA_ARGS__)
#define uint3(...) emu_mk<uint3>(__VA_ARGS__)
#define uint4(...) emu_mk<uint4>(__VA_ARGS__)
// clang-format off
#pragma GCC poison double std new delete try catch throw virtual dynamic_cast typeid goto thread_local
