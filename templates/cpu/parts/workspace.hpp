// ---- Workspace: one growing, 64-byte aligned buffer per thread, kept between calls. --------------
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(data_); }

  // At least `bytes` bytes with undefined contents, or null when memory is short.
  void* reserve(size_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      const size_t rounded = (bytes + 63) / 64 * 64;
      data_ = std::aligned_alloc(64, rounded);
      size_ = data_ != nullptr ? rounded : 0;
    }
    return data_;
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

thread_local Workspace workspace;
