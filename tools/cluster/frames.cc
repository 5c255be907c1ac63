#include "tools/cluster/frames.h"

#include "base/format.h"
#include "proto/node_protocol.h"
#include "proto/parse.h"

namespace hp {
namespace {

constexpr size_t kHeadBytes = 4;
constexpr size_t kMostBytes = 4 << 20;  // of a message: chunks of files are smaller
constexpr size_t kMostOfLine = 16 << 10;

}  // namespace

std::string LaunchVersion() {
  return Format("hpnode %s, launch protocol 2, node protocol %u", HP_VERSION, kNodeProtocol);
}

std::string EncodeFrame(const LaunchMessage& message) {
  const std::string body = message.SerializeAsString();
  std::string frame(kHeadBytes, '\0');
  for (size_t i = 0; i < kHeadBytes; ++i) frame[i] = static_cast<char>(body.size() >> (8 * (kHeadBytes - 1 - i)));
  return frame + body;
}

Status FrameReader::Add(std::string_view bytes, const std::function<void(const LaunchMessage&)>& on_message) {
  waiting_ += bytes;
  size_t begin = 0;
  while (waiting_.size() - begin >= kHeadBytes) {
    size_t size = 0;
    for (size_t i = 0; i < kHeadBytes; ++i) size = size << 8 | static_cast<unsigned char>(waiting_[begin + i]);
    LaunchMessage message;
    if (size > kMostBytes) return DataLoss("\"%s\" is no message", Printable(waiting_.substr(begin), 80).c_str());
    if (waiting_.size() - begin - kHeadBytes < size) break;
    if (!ParseMessage(std::string_view(waiting_).substr(begin + kHeadBytes, size), &message)) {
      return DataLoss("\"%s\" is no message", Printable(waiting_.substr(begin), 80).c_str());
    }
    begin += kHeadBytes + size;
    on_message(message);
  }
  waiting_.erase(0, begin);
  return OkStatus();
}

void LineReader::Add(std::string_view bytes, const std::function<void(const std::string&)>& on_line) {
  for (const char byte : bytes) {
    if (byte != '\n') waiting_ += byte;
    if (byte == '\n' || waiting_.size() >= kMostOfLine) {
      on_line(waiting_);
      waiting_.clear();
    }
  }
}

void LineReader::Finish(const std::function<void(const std::string&)>& on_line) {
  if (!waiting_.empty()) on_line(waiting_);
  waiting_.clear();
}

}  // namespace hp
