// A file is a row of records: the length of an event in 8 bytes, the length's checksum, the event, its checksum, all
// little-endian. Source: TensorFlow, tensorflow/core/lib/io/record_writer.cc and
// tensorflow/core/util/events_writer.cc; what a start's record means to TensorBoard is in its
// backend/event_processing/plugin_event_accumulator.py.
#include "report/event_file.h"

#include "base/format.h"
#include "base/host.h"

#include "glog/logging.h"
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace hp {
namespace {

constexpr std::array<uint32_t, 256> kCrcOfByte = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    table[byte] = crc;
  }
  return table;
}();

/// As it stands in a record: a checksum of bytes that have checksums in them would say little.
uint32_t Masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(byte)) & 255u];
  return ~crc;
}

StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder, int64_t start) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return InvalidArgument("--tensorboard=%s: %s", folder.c_str(), error.message().c_str());
  const std::string name = Format("%s/events.out.tfevents.%010lld.%s.%d.", folder.c_str(),
                                  static_cast<long long>(SecondsSince1970()), HostName().c_str(), getpid());
  for (int number = 0;; ++number) {
    const std::string path = name + std::to_string(number);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 && errno == EEXIST) continue;  // several starts in one process and second
    if (file < 0) return InvalidArgument("--tensorboard=%s: %s", folder.c_str(), std::strerror(errno));
    std::unique_ptr<EventFile> events(new EventFile(path, file));
    events->Begin(start);
    events->thread_ = Thread("event file", [self = events.get()] { self->Run(); });
    return events;
  }
}

EventFile::~EventFile() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.Join();
  close(file_);
}

void EventFile::Begin(int64_t start) {
  MutexLock lock(&mutex_);
  TrainingEvent version;
  version.set_wall_time(SecondsSince1970());
  version.set_file_version("brain.Event:2");
  TrainingEvent begun;
  begun.set_wall_time(version.wall_time());
  begun.set_step(start);
  begun.mutable_session_log()->set_status(SessionLog::START);
  events_ = {version, begun};
}

void EventFile::Add(int64_t iteration, const std::vector<Point>& points) {
  TrainingEvent event;
  event.set_wall_time(SecondsSince1970());
  event.set_step(iteration);
  for (const auto& [curve, value] : points) {
    ScalarSummary::Value* const point = event.mutable_summary()->add_value();
    point->set_tag(curve);
    point->set_simple_value(static_cast<float>(value));
  }
  MutexLock lock(&mutex_);
  events_.push_back(std::move(event));
  changed_.SignalAll();
}

void EventFile::Run() {
  for (;;) {
    TrainingEvent event;
    {
      MutexLock lock(&mutex_);
      while (events_.empty() && !stop_) changed_.Wait(&mutex_);
      if (events_.empty()) return;
      event = std::move(events_.front());
      events_.pop_front();
    }
    Write(event);
  }
}

// In one call: who reads the file meanwhile sees whole records.
void EventFile::Write(const TrainingEvent& event) {
  const std::string content = event.SerializeAsString();
  const uint64_t length = content.size();
  const uint32_t length_crc = Masked(Crc32c(BytesOf(length))), content_crc = Masked(Crc32c(content));
  std::string record;
  for (const std::string_view part :
       {BytesOf(length), BytesOf(length_crc), std::string_view(content), BytesOf(content_crc)}) {
    record += part;
  }
  if (torn_) return;
  errno = ENOSPC;  // of a record that is written in part
  if (write(file_, record.data(), record.size()) == std::ssize(record)) {
    end_ += std::ssize(record);
    return;
  }
  if (!std::exchange(warned_, true)) LOG(WARNING) << path_ << ": points are missing: " << std::strerror(errno);
  // No reader gets past half a record.
  torn_ = ftruncate(file_, end_) != 0 || lseek(file_, end_, SEEK_SET) != end_;
}

}  // namespace hp
