// Memory for intermediate results of a kernel.
#pragma once

#include <cstdint>
#include <memory>

namespace mlpot {

// Numbers that start at the beginning of a cache line.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t size = 0) { resize(size); }
  void resize(int64_t size) {
    if (size <= size_) return;
    memory_.reset(new char[size * sizeof(T) + kLine]);
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    data_ = reinterpret_cast<T*>((address + kLine - 1) / kLine * kLine);
    size_ = size;
  }
  T* data() const { return data_; }

 private:
  static constexpr uintptr_t kLine = 64;
  std::unique_ptr<char[]> memory_;
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace mlpot
