#include "hp/status.h"

#include "base/format.h"

#include <cstdarg>

namespace hp {

#define HP_DEFINE_STATUS(function, code)                    \
  Status function(const char* format, ...) {                \
    va_list args;                                           \
    va_start(args, format);                                 \
    Status status(StatusCode::code, FormatV(format, args)); \
    va_end(args);                                           \
    return status;                                          \
  }

HP_DEFINE_STATUS(InternalError, kInternal)
HP_DEFINE_STATUS(InvalidArgument, kInvalidArgument)
HP_DEFINE_STATUS(NotFound, kNotFound)
HP_DEFINE_STATUS(FailedPrecondition, kFailedPrecondition)
HP_DEFINE_STATUS(DataLoss, kDataLoss)
HP_DEFINE_STATUS(NumericError, kNumeric)
HP_DEFINE_STATUS(Unavailable, kUnavailable)
HP_DEFINE_STATUS(DeadlineExceeded, kDeadlineExceeded)
HP_DEFINE_STATUS(ResourceExhausted, kResourceExhausted)
HP_DEFINE_STATUS(Cancelled, kCancelled)
HP_DEFINE_STATUS(Stopped, kStopped)
#undef HP_DEFINE_STATUS

int ExitStatus(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kDataLoss:
    case StatusCode::kResourceExhausted:
      return 2;
    case StatusCode::kNumeric:
      return 3;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return 4;
    case StatusCode::kStopped:
      return 5;
    default:
      return 1;
  }
}

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInternal:
      return "internal";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kFailedPrecondition:
      return "failed precondition";
    case StatusCode::kDataLoss:
      return "data loss";
    case StatusCode::kNumeric:
      return "numeric";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  if (status.ok()) return out << "ok";
  return out << StatusCodeName(status.code()) << ": " << status.message();
}

}  // namespace hp
