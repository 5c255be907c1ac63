#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace hp {

/// What went wrong, in the few kinds that callers tell apart. Each kind has an exit status (see ExitStatus).
enum class StatusCode {
  kOk = 0,
  kInternal,            ///< our own fault: exit 1
  kInvalidArgument,     ///< this node's input or configuration: exit 2
  kNotFound,            ///< a file, layer or node that should be there: exit 2
  kFailedPrecondition,  ///< peers or files that do not fit together: exit 2
  kDataLoss,            ///< a truncated or corrupt file: exit 2
  kNumeric,             ///< NaN or infinity in the training: exit 3
  kUnavailable,         ///< a peer is lost: exit 4
  kDeadlineExceeded,    ///< a peer did not appear in time: exit 4
  kResourceExhausted,   ///< no space, memory or grant right now
  kCancelled,           ///< ended by the other side or by a stop
};

/// The result of something that peers, files, configuration or devices can make fail. Cheap when ok.
/// The message names cause and identity once, where the fault was detected.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same fault with where it happened put in front: "WHERE: message".
  Status Prepend(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
/// printf-style constructors, e.g. InvalidArgument("layer \"%s\": no bottom", name.c_str()).
Status InternalError(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status InvalidArgument(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status NotFound(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status FailedPrecondition(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status DataLoss(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status NumericError(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status Unavailable(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status DeadlineExceeded(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status ResourceExhausted(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status Cancelled(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The process exit status for `status`: 0 done, 1 our own fault, 2 input or configuration, 3 numbers, 4 lost node.
int ExitStatus(const Status& status);

const char* StatusCodeName(StatusCode code);
std::ostream& operator<<(std::ostream& out, const Status& status);

/// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace hp

#define HP_CONCAT_INNER(a, b) a##b
#define HP_CONCAT(a, b) HP_CONCAT_INNER(a, b)

/// Returns from the enclosing function when `expression` is not ok.
#define HP_RETURN_IF_ERROR(expression)                                               \
  do {                                                                               \
    if (::hp::Status hp_status_ = (expression); !hp_status_.ok()) return hp_status_; \
  } while (0)

/// Declares or assigns `target` from a StatusOr, or returns its Status.
#define HP_ASSIGN_OR_RETURN(target, expression) \
  HP_ASSIGN_OR_RETURN_INNER(HP_CONCAT(hp_result_, __LINE__), target, expression)
#define HP_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.status();                   \
  target = *std::move(result)
