// What the kernel, compiled with the stand-in for <metal_stdlib>, and the runtime share.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct emu_uint3 {
  unsigned x, y, z;
};

// Attributes of a thread, named as in Metal.
struct emu_attributes {
  emu_uint3 thread_position_in_grid, thread_position_in_threadgroup;
  emu_uint3 threadgroup_position_in_grid, threads_per_threadgroup;
  emu_uint3 dispatch_threads_per_threadgroup, threads_per_grid, threadgroups_per_grid;
  emu_uint3 grid_size, grid_origin;
  unsigned thread_index_in_threadgroup, thread_index_in_simdgroup;
  unsigned simdgroup_index_in_threadgroup, simdgroups_per_threadgroup;
  unsigned dispatch_simdgroups_per_threadgroup, threads_per_simdgroup, thread_execution_width;
  unsigned thread_index_in_quadgroup, quadgroup_index_in_threadgroup;
  unsigned quadgroups_per_threadgroup, dispatch_quadgroups_per_threadgroup;
};

// What the lanes of a simdgroup brought to one operation.
struct emu_lanes {
  uint32_t mask;  // bit i: lane i took part
  uint32_t self;
  unsigned char data[32][16];
};

extern "C" {
// Of the kernel: one thread's run over the buffers.
void emu_thread_main(void** buffers);
// Of the runtime, called by the thread that runs.
const emu_attributes* emu_current();
const emu_lanes* emu_simd(const void* value, unsigned size, int line, const char* operation,
                          unsigned barrier_flags_plus_one);
void emu_barrier(int line, unsigned flags);
void* emu_threadgroup_variable(int id, size_t size);
void emu_note(const char* what, int line);
}
