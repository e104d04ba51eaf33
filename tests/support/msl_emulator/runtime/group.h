// Runs the threads of one threadgroup to their end, meeting at barriers and simdgroup operations.
#pragma once

// ---- threadgroup memory: an arena; each variable is filled with `fill_byte` in each group ----
static const size_t ARENA_BYTES = 256 << 10;
static const size_t THREADGROUP_LIMIT = 32768;  // of Metal
static char* arena;
static size_t arena_used, group_bytes, most_group_bytes;
static unsigned fill_byte = 0xff;
static std::map<int, void*> group_variables;

extern "C" void* emu_threadgroup_variable(int id, size_t size) {
  auto found = group_variables.find(id);
  if (found != group_variables.end()) return found->second;
  char* p = arena + arena_used;
  arena_used += (size + 63) / 64 * 64 + 64;
  group_bytes += size;
  group_variables[id] = p;
  if (arena_used > ARENA_BYTES) {
    fprintf(stderr, "EMU threadgroup memory over %zu bytes\n", ARENA_BYTES);
    exit(7);
  }
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(p, size);
  for (size_t i = 0; i < size; ++i) ((volatile unsigned char*)p)[i] = fill_byte;
  return p;
}

// ---- simdgroup operations ----
struct Simdgroup {
  unsigned begin, end, live = 0;
  Fibre* leader = nullptr;  // the one that waits at the first line
};

static Simdgroup look_at(unsigned begin, unsigned end) {
  Simdgroup group{begin, end};
  for (unsigned i = begin; i < end; ++i) {
    Fibre& fibre = fibres[i];
    if (fibre.state != DONE) ++group.live;
    if (fibre.state == AT_SIMD && (!group.leader || fibre.line < group.leader->line))
      group.leader = &fibre;
  }
  return group;
}

// Lanes that wait at the same line for the same operation get each other's values.
static void complete(const Simdgroup& group) {
  uint32_t mask = 0;
  for (unsigned i = group.begin; i < group.end; ++i) {
    Fibre& fibre = fibres[i];
    if (fibre.state == AT_SIMD && fibre.line == group.leader->line &&
        fibre.operation == group.leader->operation)
      mask |= 1u << (i - group.begin);
  }
  std::string name = group.leader->operation;
  if (unsigned(__builtin_popcount(mask)) != group.live)
    note("divergent " + name + at_line(group.leader->line));
  else if (group.live != group.end - group.begin)
    note(name + " after some lanes returned," + at_line(group.leader->line));
  for (unsigned i = group.begin; i < group.end; ++i) {
    if (!(mask >> (i - group.begin) & 1)) continue;
    emu_lanes& lanes = fibres[i].lanes;
    lanes.mask = mask;
    lanes.self = i - group.begin;
    for (unsigned j = group.begin; j < group.end; ++j)
      if (mask >> (j - group.begin) & 1)
        copy_bytes(lanes.data[j - group.begin], fibres[j].value, fibres[j].size);
  }
  for (unsigned i = group.begin; i < group.end; ++i)
    if (mask >> (i - group.begin) & 1) fibres[i].state = READY;
  RACE(if (group.leader->flags > 1) race_simd_barrier(group.begin / 32, group.leader->flags - 1);)
}

// ---- barriers ----
static void pass_barrier(unsigned n_threads) {
  std::set<int> lines;
  unsigned waiting = 0, flags = 0;
  for (auto& fibre : fibres) {
    if (fibre.state != AT_BARRIER) continue;
    lines.insert(fibre.line);
    flags |= fibre.flags;
    ++waiting;
  }
  if (lines.size() > 1)
    note("threads wait at different barriers, kernel lines " + std::to_string(*lines.begin()) +
         " and " + std::to_string(*lines.rbegin()));
  if (waiting != n_threads)
    note("threadgroup_barrier not reached by every thread," + at_line(*lines.begin()));
  RACE(race_barrier(flags);)
  for (auto& fibre : fibres)
    if (fibre.state == AT_BARRIER) fibre.state = READY;
}

// order: 0 as numbered, 1 the last first, 2 shuffled anew at every step.
static void run_group(unsigned n_threads, int order, std::mt19937& random) {
  group_variables.clear();
  arena_used = 64;
  group_bytes = 0;
  std::vector<unsigned> sequence(n_threads);
  for (unsigned i = 0; i < n_threads; ++i) sequence[i] = order == 1 ? n_threads - 1 - i : i;
  for (;;) {
    if (order == 2) std::shuffle(sequence.begin(), sequence.end(), random);
    for (unsigned i : sequence)
      if (fibres[i].state == READY) resume(fibres[i]);
    bool again = false, alive = false;
    for (unsigned begin = 0; begin < n_threads; begin += 32) {
      Simdgroup group = look_at(begin, std::min(n_threads, begin + 32));
      alive |= group.live > 0;
      if (!group.leader) continue;
      complete(group);
      again = true;
    }
    if (again) continue;
    if (!alive) break;
    pass_barrier(n_threads);
  }
  most_group_bytes = std::max(most_group_bytes, group_bytes);
}
