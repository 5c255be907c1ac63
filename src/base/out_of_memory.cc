#include "base/out_of_memory.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace hp {
namespace {

std::terminate_handler other_faults = nullptr;

bool IsNoThread(const std::system_error& error) { return error.code() == std::errc::resource_unavailable_try_again; }

/// Allocates nothing.
[[noreturn]] void Leave(const char* why) {
  char thread[16] = "", line[160];
  pthread_getname_np(pthread_self(), thread, sizeof(thread));
  const int length =
      std::snprintf(line, sizeof(line), "%s: %s (thread \"%s\")\n", program_invocation_short_name, why, thread);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  _exit(ExitStatus(Status(StatusCode::kResourceExhausted, "")));
}

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    Leave("out of memory");
  } catch (const std::system_error& error) {
    if (IsNoThread(error))
      Leave("cannot start a thread: no memory for it, or a limit on threads (ulimit -u, pids.max)");
  } catch (...) {
  }
  other_faults();
  std::abort();
}

}  // namespace

Status OutOfMemory(const std::string& what) {
  return ResourceExhausted("out of memory%s%s", what.empty() ? "" : ": ", what.c_str());
}

Status NoThread(const std::string& what, const std::system_error& error) {
  if (!IsNoThread(error)) throw;
  return ResourceExhausted("cannot start a thread%s%s: no memory for it, or a limit on threads (ulimit -u, pids.max)",
                           what.empty() ? "" : ", ", what.c_str());
}

void ExitWhenOutOfMemory() {
  other_faults = std::set_terminate(OnTerminate);
  // libc loads what unwinds the stack when it is first needed, and aborts if there is no memory for it then.
  void* frame = nullptr;
  backtrace(&frame, 1);
}

}  // namespace hp
