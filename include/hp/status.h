#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace hp {

/// What went wrong, in the few kinds that callers tell apart. Each kind has an exit status of the process
/// (ExitStatus).
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
  kResourceExhausted,   ///< the host has no memory, threads or disk space for it: exit 2
  kCancelled,           ///< ended in order, by the peer or by a stop of our own: exit 1 if it reaches main()
  kStopped,             ///< the job stopped early because it was asked to, and can be resumed: exit 5
};

/// The result of something that peers, files, configuration or devices can make fail; our own bugs are CHECKs instead.
/// A value: copy and move it freely. The message names cause and identity (file, peer, layer) once, where the fault was
/// detected; callers that know more put it in front with Prepend.
///   Status status = file->Write(bytes);
///   if (!status.ok()) return status.Prepend("snapshot");
class [[nodiscard]] Status {
 public:
  Status() = default;  ///< ok, without a message
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// @return the same code with the message "WHERE: message"; an ok status unchanged.
  Status Prepend(const std::string& where) const { return ok() ? *this : Status(code_, where + ": " + message_); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
// Statuses with a printf-style message, one function for each code. The compiler checks the arguments.
/// InvalidArgument("layer \"%s\": no bottom", name.c_str()).
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
Status Stopped(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// The process exit status for `status`: 0 ok, 1 our own fault, 2 input, configuration, or too little memory, 3 NaN or
/// infinity in the training, 4 a node was lost, 5 stopped early by request. After 4 and 5 the job is worth starting
/// again.
int ExitStatus(const Status& status);

/// "invalid argument" for kInvalidArgument: a constant in lower case, for messages.
const char* StatusCodeName(StatusCode code);
/// "CODE NAME: message", or "ok".
std::ostream& operator<<(std::ostream& out, const Status& status);

/// A T, or the Status that says why there is none. Both constructors are implicit, so that a function returns either a
/// value or a Status. value(), * and -> may be used only if ok(); `*std::move(result)` moves the value out, also if T
/// cannot be copied.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  /// @param status must not be ok: that would be neither a value nor an error.
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }  ///< ok if there is a value
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
  std::optional<T> value_;  // empty: status_ is an error
};

}  // namespace hp

#define HP_CONCAT_INNER(a, b) a##b
#define HP_CONCAT(a, b) HP_CONCAT_INNER(a, b)

/// Evaluates `expression`, a Status, once; returns it from the enclosing function (of type Status or StatusOr) unless
/// it is ok.
#define HP_RETURN_IF_ERROR(expression)                                               \
  do {                                                                               \
    if (::hp::Status hp_status_ = (expression); !hp_status_.ok()) return hp_status_; \
  } while (0)

/// Evaluates `expression`, a StatusOr, once; returns its Status from the enclosing function if it is not ok, else moves
/// its value into `target`, which may be a declaration:
///   HP_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(path, kind));
/// Several statements: inside `if` or a loop it needs braces. A comma in `target` needs parentheses, or a typedef.
#define HP_ASSIGN_OR_RETURN(target, expression) \
  HP_ASSIGN_OR_RETURN_INNER(HP_CONCAT(hp_result_, __LINE__), target, expression)
#define HP_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.status();                   \
  target = *std::move(result)
