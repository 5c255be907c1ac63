#pragma once

#include "hp/status.h"

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace hp {

// What becomes of memory, or a thread, that the system refuses. Large memory is asked for by functions that return a
// Status (Buffer::Allocate). Everything small is new, which throws: the main loops of threads turn that into a Status
// (OrOutOfMemory), and where nobody does the process ends with one line (ExitWhenOutOfMemory).

/// kResourceExhausted, "out of memory: WHAT". @param what was being done: "reading the job's files"; may be empty.
Status OutOfMemory(const std::string& what);

/// kResourceExhausted for what a thread could not be started with; throws it again if it is another error.
Status NoThread(const std::string& what, const std::system_error& error);

/// Calls `work`, and returns its Status or StatusOr; OutOfMemory or NoThread where the standard library throws because
/// of either. Any thread. Not around what holds a lock that nothing unlocks on the way out.
template <typename Work>
auto OrOutOfMemory(const char* what, const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(what);
  } catch (const std::length_error&) {  // a std::vector or std::string beyond what there can be
    return OutOfMemory(what);
  } catch (const std::system_error& error) {
    return NoThread(what, error);
  }
}

/// From now on an exception of this kind that nobody catches, on any thread, ends the process with one line on stderr
/// that names the thread, and ExitStatus of kResourceExhausted. All others abort it as before. Once, by main().
void ExitWhenOutOfMemory();

}  // namespace hp
