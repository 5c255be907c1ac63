#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// Bytes on their way to a descriptor. Never blocks: what the descriptor does not take waits in memory. After an error
/// (nobody reads any more) all is dropped. Destruction closes the descriptor at once.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void Send(std::string bytes) = 0;
  /// Closes the descriptor once all that was sent is written.
  virtual void Close() = 0;
  virtual size_t waiting() const = 0;  ///< bytes that are not written yet
};

/// Descriptors, signals and timers of a process with one thread (Boost.Asio, which only its source includes). All
/// functions on the thread that calls RunOnce. Callbacks that are given to it must live as long as RunOnce is called;
/// a Sink must be destroyed before the loop.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();

  /// Takes `fd`, a pipe or socket, and reads it to its end: `on_bytes` gets each piece, then `on_end` is called once
  /// and `fd` closed. An error counts as the end.
  void Read(int fd, std::function<void(std::string_view)> on_bytes, std::function<void()> on_end);
  /// Takes `fd` for writing.
  std::unique_ptr<Sink> Write(int fd);
  /// Calls `handler` for each of these signals instead of what they did before. Two of one kind in a row may be one.
  void OnSignals(const std::vector<int>& signals, std::function<void(int)> handler);
  /// Calls `handler` again and again, with `period` between the end of one call and the next.
  void Every(std::chrono::milliseconds period, std::function<void()> handler);
  /// Blocks until something happened, and calls what is due. Call it only with a timer or a Read, or it blocks for
  /// good.
  void RunOnce();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace hp
