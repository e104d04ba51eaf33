// One fibre for each GPU thread: they run until they wait at a barrier or a simdgroup operation.
#pragma once

#define WEAK __attribute__((weak))
extern "C" {
WEAK void __sanitizer_start_switch_fiber(void**, const void*, size_t);
WEAK void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
WEAK void __asan_poison_memory_region(const volatile void*, size_t);
WEAK void __asan_unpoison_memory_region(const volatile void*, size_t);
}

enum State { READY, AT_BARRIER, AT_SIMD, DONE };
static const size_t STACK_BYTES = 256 << 10;

struct Fibre {
  ucontext_t context;
  char* stack;
  void* fake_stack;  // of the address sanitizer
  State state;
  // Where and for what it waits.
  int line;
  const char* operation;
  const void* value;
  unsigned size, flags;
  emu_attributes attributes;
  emu_lanes lanes;
};

static std::vector<Fibre> fibres;
static Fibre* current;
static ucontext_t scheduler;
static void* scheduler_fake_stack;
static const void* scheduler_stack;
static size_t scheduler_stack_size;
static void** buffer_pointers;
static std::map<std::string, long> notes;

static void note(const std::string& what) { notes[what]++; }
static std::string at_line(int line) { return " at kernel line " + std::to_string(line); }

// Not memcpy: the sanitizers would intercept it.
static void copy_bytes(void* to, const void* from, size_t size) {
  volatile char* a = (volatile char*)to;
  const volatile char* b = (const volatile char*)from;
  while (size--) *a++ = *b++;
}

static void wait_as(State state) {  // from the fibre to the scheduler
  Fibre* fibre = current;
  fibre->state = state;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(state == DONE ? nullptr : &fibre->fake_stack, scheduler_stack,
                                   scheduler_stack_size);
  swapcontext(&fibre->context, &scheduler);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(fibre->fake_stack, nullptr, nullptr);
}

static void fibre_main() {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
  emu_thread_main(buffer_pointers);
  wait_as(DONE);
}

static void resume(Fibre& fibre) {  // from the scheduler to the fibre
  current = &fibre;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, fibre.stack, STACK_BYTES);
  swapcontext(&scheduler, &fibre.context);
  current = nullptr;
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
}

static void start(Fibre& fibre, char* stack) {
  fibre.stack = stack;
  fibre.state = READY;
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = stack;
  fibre.context.uc_stack.ss_size = STACK_BYTES;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, fibre_main, 0);
}

extern "C" {
const emu_attributes* emu_current() { return &current->attributes; }
void emu_note(const char* what, int line) { note(what + at_line(line)); }
void emu_barrier(int line, unsigned flags) {
  current->line = line;
  current->operation = "threadgroup_barrier";
  current->flags = flags;
  wait_as(AT_BARRIER);
}
const emu_lanes* emu_simd(const void* value, unsigned size, int line, const char* operation,
                          unsigned flags) {
  Fibre* fibre = current;
  fibre->line = line;
  fibre->operation = operation;
  fibre->value = value;
  fibre->size = size;
  fibre->flags = flags;
  wait_as(AT_SIMD);
  return &fibre->lanes;
}
}
