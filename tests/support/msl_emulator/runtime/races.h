// Exact check for data races. The kernel is compiled with -fsanitize=thread, but the callbacks here
// take the place of the sanitizer's runtime (which stops at 255 threads). Every byte of the buffers
// and of threadgroup memory has a shadow; a barrier advances the epoch of the memories it names, so
// one with mem_threadgroup orders threadgroup memory only.
#pragma once

struct Access {
  uint32_t thread = 0, group = 0, epoch = 0, simd_epoch = 0;  // thread 0: none, else index + 1
  void* at = nullptr;
};
struct Shadow {
  Access write, atomic_write, reads[3];
};
struct Region {
  char *begin, *end;
  bool is_threadgroup;
  std::vector<Shadow> shadows;
};

static std::vector<Region> regions;
static uint32_t epochs[2], simd_epochs[64][2];  // [0] device, [1] threadgroup memory
static uint32_t current_group = 0;
static std::map<std::string, int> races;

static void race_watch(void* p, size_t size, bool is_threadgroup) {
  regions.push_back({(char*)p, (char*)p + size, is_threadgroup, std::vector<Shadow>(size)});
}

static void race_new_group() {
  ++current_group;
  memset(epochs, 0, sizeof epochs);
  memset(simd_epochs, 0, sizeof simd_epochs);
  for (auto& region : regions)
    if (region.is_threadgroup) region.shadows.assign(region.end - region.begin, Shadow());
}

static void race_barrier(unsigned flags) {
  for (int memory = 0; memory < 2; ++memory)
    if (flags >> memory & 1) epochs[memory]++;
}

static void race_simd_barrier(unsigned simdgroup, unsigned flags) {
  for (int memory = 0; memory < 2; ++memory)
    if (flags >> memory & 1) simd_epochs[simdgroup][memory]++;
}

// Whether `other` is by another thread and no barrier lies between it and `mine`.
static bool unordered(const Access& other, const Access& mine) {
  if (!other.thread || (other.thread == mine.thread && other.group == mine.group)) return false;
  if (other.group != mine.group) return true;
  if (other.epoch < mine.epoch) return false;
  bool same_simdgroup = (other.thread - 1) / 32 == (mine.thread - 1) / 32;
  return !(same_simdgroup && other.simd_epoch < mine.simd_epoch);
}

static void race_check(Shadow& shadow, const Access& mine, bool write, bool atomic, bool shared) {
  const Access* other = nullptr;
  const char* what = "";
  if (unordered(shadow.write, mine)) {
    other = &shadow.write;
    what = write ? "write/write" : "write/read";
  } else if (!atomic && unordered(shadow.atomic_write, mine)) {
    other = &shadow.atomic_write;
    what = "atomic/plain";
  } else if (write) {
    for (auto& read : shadow.reads)
      if (!other && unordered(read, mine))
        other = &read, what = atomic ? "read/atomic" : "read/write";
  }
  if (!other) return;
  char text[160];
  snprintf(text, sizeof text, "RACE %s %s %p %p", what, shared ? "threadgroup" : "device",
           other->at, mine.at);
  races[text]++;
}

static void race_remember(Shadow& shadow, const Access& mine, bool write, bool atomic) {
  if (write) {
    (atomic ? shadow.atomic_write : shadow.write) = mine;
    if (!atomic)
      for (auto& read : shadow.reads) read = Access();
  } else if (!atomic) {  // the last reads by up to three threads
    auto& reads = shadow.reads;
    if (reads[0].group != mine.group) reads[2] = reads[0];
    if (reads[0].thread != mine.thread || reads[0].group != mine.group) reads[1] = reads[0];
    reads[0] = mine;
  }
}

static void race_access(const volatile void* address, unsigned size, bool write, bool atomic,
                        void* at) {
  if (!current) return;
  char* p = (char*)address;
  for (auto& region : regions) {
    if (p < region.begin || p >= region.end) continue;
    int memory = region.is_threadgroup;
    unsigned index = current->attributes.thread_index_in_threadgroup;
    Access mine{index + 1, current_group, epochs[memory], simd_epochs[index / 32][memory], at};
    for (unsigned i = 0; i < size && p + i < region.end; ++i) {
      Shadow& shadow = region.shadows[p - region.begin + i];
      race_check(shadow, mine, write, atomic, region.is_threadgroup);
      race_remember(shadow, mine, write, atomic);
    }
    return;
  }
}

// ---- the callbacks that the compiler puts before every access ----
#define CALLER __builtin_return_address(0)
#define PLAIN(n)                                                                      \
  void __tsan_read##n(void* p) { race_access(p, n, false, false, CALLER); }           \
  void __tsan_write##n(void* p) { race_access(p, n, true, false, CALLER); }           \
  void __tsan_unaligned_read##n(void* p) { race_access(p, n, false, false, CALLER); } \
  void __tsan_unaligned_write##n(void* p) { race_access(p, n, true, false, CALLER); }
#define ATOMIC(bits, T)                                                                        \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                     \
    race_access(p, sizeof(T), false, true, CALLER);                                            \
    return *p;                                                                                 \
  }                                                                                            \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                              \
    race_access(p, sizeof(T), true, true, CALLER);                                             \
    *p = value;                                                                                \
  }                                                                                            \
  T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                              \
    race_access(p, sizeof(T), true, true, CALLER);                                             \
    T old = *p;                                                                                \
    *p = value;                                                                                \
    return old;                                                                                \
  }                                                                                            \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) { \
    race_access(p, sizeof(T), true, true, CALLER);                                             \
    T old = *p;                                                                                \
    if (old == expected) *p = value;                                                           \
    return old;                                                                                \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
void* __tsan_memcpy(void* to, const void* from, size_t size) {
  race_access(from, size, false, false, CALLER);
  race_access(to, size, true, false, CALLER);
  copy_bytes(to, from, size);
  return to;
}
void* __tsan_memmove(void* to, const void* from, size_t size) {
  race_access(from, size, false, false, CALLER);
  race_access(to, size, true, false, CALLER);
  return memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, size_t size) {
  race_access(to, size, true, false, CALLER);
  return memset(to, value, size);
}
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
}
