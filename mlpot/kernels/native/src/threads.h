// A pool of threads that share the chunks of one loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace mlpot {

// Hands out consecutive ranges of 0..n-1. Which thread gets which range is left to chance, so the
// work on an item must not depend on the items before it.
class Chunks {
 public:
  Chunks(int64_t n, int64_t grain) : n_(n), grain_(grain < 1 ? 1 : grain) {}

  bool next(int64_t& begin, int64_t& end) {
    begin = position_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= n_) return false;
    end = begin + grain_ < n_ ? begin + grain_ : n_;
    return true;
  }
  int64_t count() const { return (n_ + grain_ - 1) / grain_; }

 private:
  const int64_t n_, grain_;
  std::atomic<int64_t> position_{0};
};

int num_threads();
void set_num_threads(int n);

// Runs `body` on up to `wanted` threads of the pool (the caller is one) and waits for all.
void run_on_threads(int64_t wanted, const std::function<void()>& body);

// Calls body(chunks) on each thread; the body draws ranges until there are none. `work` is about
// the number of vector operations: little work stays on the calling thread.
template <class Body>
void parallel(int64_t n, int64_t grain, int64_t work, const Body& body) {
  constexpr int64_t kWorkOfAThread = 20000;
  Chunks chunks(n, grain);
  const int64_t useful = work / kWorkOfAThread + 1;
  const int64_t wanted = useful < chunks.count() ? useful : chunks.count();
  if (wanted <= 1)
    body(chunks);
  else
    run_on_threads(wanted, [&] { body(chunks); });
}

}  // namespace mlpot
