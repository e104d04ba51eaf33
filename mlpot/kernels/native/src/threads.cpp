#include "threads.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace mlpot {
namespace {

constexpr auto kWatch = std::chrono::microseconds(200);

class Pool {
 public:
  // Threads are never joined: they wait for work until the process ends.
  void run(int n_helpers, const std::function<void()>& body) {
    while (static_cast<int>(n_threads_) < n_helpers) {
      std::thread([this] { serve(); }).detach();
      n_threads_++;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      to_start_ = n_helpers;
      running_ = 0;
    }
    wake_.notify_all();
    body();
    std::unique_lock<std::mutex> lock(mutex_);
    to_start_ = 0;  // helpers that have not woken up by now find nothing left to do
    done_.wait(lock, [this] { return running_ == 0; });
    body_ = nullptr;
  }

 private:
  void serve() {
    for (;;) {
      watch();
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return to_start_ > 0; });
      to_start_--;
      running_++;
      const std::function<void()>* body = body_;
      lock.unlock();
      (*body)();
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  // Waking a sleeping thread takes as long as a small convolution, and the next one often comes
  // soon: look out for it for a while, at the end of the queue of those who want the core.
  void watch() const {
    const auto end = std::chrono::steady_clock::now() + kWatch;
    while (to_start_ == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void()>* body_ = nullptr;
  std::atomic<int> to_start_{0};
  int running_ = 0;
  int n_threads_ = 0;
};

std::atomic<int> thread_count{1};
std::mutex in_use;
// A process made by fork has no threads of its parent: it gets a pool of its own. The pools are
// never freed, since their threads outlive static destructors.
Pool* pool = nullptr;
pid_t pool_owner = 0;

}  // namespace

int num_threads() { return thread_count; }

void set_num_threads(int n) { thread_count = n < 1 ? 1 : n; }

void run_on_threads(int64_t wanted, const std::function<void()>& body) {
  const int limit = num_threads();
  const int n = wanted < limit ? static_cast<int>(wanted) : limit;
  // Another stream may hold the pool; then this one works alone.
  std::unique_lock<std::mutex> lock(in_use, std::try_to_lock);
  if (n <= 1 || !lock.owns_lock()) {
    body();
    return;
  }
  if (pool_owner != getpid()) {
    pool = new Pool;
    pool_owner = getpid();
  }
  pool->run(n - 1, body);
}

}  // namespace mlpot
