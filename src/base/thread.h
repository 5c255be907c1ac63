#pragma once

#include <functional>
#include <string>
#include <thread>

namespace hp {

/// A joining thread with a name of at most 15 characters that `top -H` and a debugger show.
class Thread {
 public:
  Thread() = default;
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;
  ~Thread() { Join(); }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  bool joinable() const { return thread_.joinable(); }

 private:
  std::thread thread_;
};

}  // namespace hp
