#pragma once

#include "hp/status.h"

#include <functional>
#include <string>
#include <thread>

namespace hp {

/// A thread that is joined on destruction and has a name that `top -H` and a debugger show (the kernel keeps its first
/// 15 characters). Destruction waits for the body, so make it return first. Assign only to one that is not joinable:
/// as with std::thread, replacing a running one ends the process.
class Thread {
 public:
  Thread() = default;  ///< no thread; joinable() is false
  /// Starts `body`, which must not throw.
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;
  ~Thread() { Join(); }

  /// Blocks until the body has returned; nothing if there is no thread. Not from the thread itself.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  bool joinable() const { return thread_.joinable(); }

 private:
  std::thread thread_;
};

/// Whether the system lets this process have `count` more threads at once: starts that many, and ends them. For
/// libraries that end the process when they get no thread. Any thread; blocks until all have ended.
/// @return kResourceExhausted: it lets it have fewer; says how many, and which limits there are.
Status TryThreads(int count);

}  // namespace hp
