#include "base/trace_events.h"

#include "base/format.h"

namespace hp {
namespace {

/// As in JSON, with its quotes.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += byte < 0x20 ? Format("\\u%04x", byte) : std::string(1, c);
  }
  return quoted + '"';
}

/// The format counts in microseconds.
std::string Micros(int64_t ns) {
  return Format("%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000));
}

std::string Metadata(int process, int track, const char* what, const std::string& name) {
  return Format("{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":", process, track, what) +
         Quoted(name) + "}}";
}

}  // namespace

std::string TraceProcess(int process, const std::string& name) { return Metadata(process, 0, "process_name", name); }

std::string TraceTrack(int process, int track, const std::string& name) {
  return Metadata(process, track, "thread_name", name);
}

std::string TraceSpan(int process, int track, const std::string& name, int64_t begin_ns, int64_t ns) {
  return Format("{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s,\"name\":", process, track,
                Micros(begin_ns).c_str(), Micros(ns).c_str()) +
         Quoted(name) + '}';
}

std::string TraceMoment(int process, int track, const std::string& name, int64_t at_ns) {
  return Format("{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%d,\"ts\":%s,\"name\":", process, track,
                Micros(at_ns).c_str()) +
         Quoted(name) + '}';
}

}  // namespace hp
