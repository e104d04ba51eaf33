// Runs a compiled kernel over a grid, one threadgroup after the other. Built without sanitizers;
// usage: KERNEL SPEC, where SPEC is the text file that msl_emulator/kernel.py writes.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "interface.h"
// In this order.
#include "fibres.h"
#ifdef EMU_RACE
#include "races.h"
#define RACE(...) __VA_ARGS__
#else
#define RACE(...)
#endif
#include "group.h"

static const int BAD_SPEC = 9;
static const size_t PAGE = 4096;

struct Buffer {
  std::string path;
  char* data;
  size_t size;
  bool is_output;
};

static char* map_pages(size_t size, int protection) {
  void* p = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    perror("mmap");
    exit(BAD_SPEC);
  }
  return (char*)p;
}

// The contents of a file between wide guards without access; the end abuts the second one, up to
// the alignment of 16 bytes, and what remains is poisoned.
static Buffer load(const char* path, size_t size, bool is_output, size_t guard) {
  size_t room = (size + PAGE - 1 + (size == 0)) / PAGE * PAGE;
  char* pages = map_pages(room + 2 * guard, PROT_NONE) + guard;
  mprotect(pages, room, PROT_READ | PROT_WRITE);
  char* data = pages + room - (size + 15) / 16 * 16;
  FILE* file = fopen(path, "rb");
  if (!file || fread(data, 1, size, file) != size) exit(BAD_SPEC);
  fclose(file);
  if (__asan_poison_memory_region) {
    __asan_poison_memory_region(pages, data - pages);
    if (data + size < pages + room)
      __asan_poison_memory_region(data + size, pages + room - (data + size));
  }
  RACE(race_watch(data, size, false);)
  return {path, data, size, is_output};
}

struct Grid {
  emu_uint3 threads, per_group, groups;
  int order;
  std::mt19937 random;

  std::vector<emu_uint3> sequence() {
    std::vector<emu_uint3> found;
    for (unsigned z = 0; z < groups.z; ++z)
      for (unsigned y = 0; y < groups.y; ++y)
        for (unsigned x = 0; x < groups.x; ++x) found.push_back({x, y, z});
    if (order == 1) std::reverse(found.begin(), found.end());
    if (order == 2) std::shuffle(found.begin(), found.end(), random);
    return found;
  }

  // Groups at the edge are smaller, as dispatchThreads makes them.
  emu_uint3 size_of(emu_uint3 group) const {
    return {std::min(per_group.x, threads.x - group.x * per_group.x),
            std::min(per_group.y, threads.y - group.y * per_group.y),
            std::min(per_group.z, threads.z - group.z * per_group.z)};
  }
};

static emu_attributes attributes_of(const Grid& grid, emu_uint3 group, emu_uint3 size,
                                    unsigned index) {
  emu_attributes a{};
  unsigned n = size.x * size.y * size.z;
  emu_uint3 local = {index % size.x, index / size.x % size.y, index / size.x / size.y};
  a.thread_position_in_grid = {group.x * grid.per_group.x + local.x,
                               group.y * grid.per_group.y + local.y,
                               group.z * grid.per_group.z + local.z};
  a.thread_position_in_threadgroup = local;
  a.threadgroup_position_in_grid = group;
  a.threads_per_threadgroup = size;
  a.dispatch_threads_per_threadgroup = grid.per_group;
  a.threads_per_grid = a.grid_size = grid.threads;
  a.threadgroups_per_grid = grid.groups;
  a.thread_index_in_threadgroup = index;
  a.thread_index_in_simdgroup = index % 32;
  a.simdgroup_index_in_threadgroup = index / 32;
  a.simdgroups_per_threadgroup = a.dispatch_simdgroups_per_threadgroup = (n + 31) / 32;
  a.threads_per_simdgroup = a.thread_execution_width = 32;
  a.thread_index_in_quadgroup = index % 4;
  a.quadgroup_index_in_threadgroup = index / 4;
  a.quadgroups_per_threadgroup = a.dispatch_quadgroups_per_threadgroup = (n + 3) / 4;
  return a;
}

static void run(Grid& grid) {
  std::vector<char*> stacks;
  arena = map_pages(ARENA_BYTES, PROT_READ | PROT_WRITE);
  RACE(race_watch(arena, THREADGROUP_LIMIT + 2048, true);)
  for (emu_uint3 group : grid.sequence()) {
    emu_uint3 size = grid.size_of(group);
    unsigned n = size.x * size.y * size.z;
    RACE(race_new_group();)
    if (__asan_poison_memory_region) __asan_poison_memory_region(arena, ARENA_BYTES);
    while (stacks.size() < n) stacks.push_back(map_pages(STACK_BYTES, PROT_READ | PROT_WRITE));
    if (__asan_unpoison_memory_region)
      for (char* stack : stacks) __asan_unpoison_memory_region(stack, STACK_BYTES);
    fibres.assign(n, Fibre{});
    for (unsigned i = 0; i < n; ++i) {
      start(fibres[i], stacks[i]);
      fibres[i].attributes = attributes_of(grid, group, size, i);
    }
    run_group(n, grid.order, grid.random);
  }
}

int main(int argc, char** argv) {
  FILE* spec = argc == 2 ? fopen(argv[1], "r") : nullptr;
  if (!spec) return BAD_SPEC;
  Grid grid;
  emu_uint3 &t = grid.threads, &g = grid.per_group;
  unsigned seed;
  size_t guard;
  int n_buffers;
  if (fscanf(spec, "%u %u %u %u %u %u %d %u %zu %u %d", &t.x, &t.y, &t.z, &g.x, &g.y, &g.z,
             &grid.order, &seed, &guard, &fill_byte, &n_buffers) != 11)
    return BAD_SPEC;
  grid.random.seed(seed);
  g = {std::min(g.x, t.x), std::min(g.y, t.y), std::min(g.z, t.z)};  // as MLX does
  grid.groups = {(t.x + g.x - 1) / g.x, (t.y + g.y - 1) / g.y, (t.z + g.z - 1) / g.z};

  std::vector<Buffer> buffers;
  std::vector<void*> pointers;
  for (int i = 0; i < n_buffers; ++i) {
    char path[512];
    size_t size;
    int is_output;
    if (fscanf(spec, "%511s %zu %d", path, &size, &is_output) != 3) return BAD_SPEC;
    buffers.push_back(load(path, size, is_output, guard));
    pointers.push_back(buffers.back().data);
  }
  buffer_pointers = pointers.data();
  run(grid);

  if (most_group_bytes > THREADGROUP_LIMIT)
    note("threadgroup memory of " + std::to_string(most_group_bytes) + " bytes is over " +
         std::to_string(THREADGROUP_LIMIT));
  for (auto& buffer : buffers) {
    if (!buffer.is_output) continue;
    FILE* file = fopen(buffer.path.c_str(), "wb");
    if (!file || fwrite(buffer.data, 1, buffer.size, file) != buffer.size) return BAD_SPEC;
    fclose(file);
  }
  for (auto& [what, times] : notes) printf("NOTE %s (%ld times)\n", what.c_str(), times);
  RACE(for (auto& [what, times] : races) printf("%s %d\n", what.c_str(), times);)
  return 0;
}
