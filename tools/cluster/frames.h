#pragma once

#include "hp/status.h"
#include "proto/launch.pb.h"

#include <functional>
#include <string>
#include <string_view>

namespace hp {

/// What hplaunch and its agents must agree in: the program's version and that of the messages.
std::string LaunchVersion();

/// A message as it is sent.
std::string EncodeFrame(const LaunchMessage& message);

/// Puts bytes together to messages. One thread.
class FrameReader {
 public:
  /// Takes the next bytes of a stream, and calls `on_message` for each message that is complete with them.
  /// @return kDataLoss: what came is no frame; shows its first bytes. Nothing may be added after it.
  Status Add(std::string_view bytes, const std::function<void(const LaunchMessage&)>& on_message);

 private:
  std::string waiting_;
};

/// Puts bytes together to lines, without their ends; a longer one than 16 KiB is several. One thread.
class LineReader {
 public:
  void Add(std::string_view bytes, const std::function<void(const std::string&)>& on_line);
  /// What came behind the last end of a line, if anything.
  void Finish(const std::function<void(const std::string&)>& on_line);

 private:
  std::string waiting_;
};

}  // namespace hp
