#pragma once

#include <cstdarg>
#include <cstddef>
#include <string>
#include <string_view>

namespace hp {

/// printf into a string.
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// The same for functions with `...` of their own. `args` is used up: only va_end may follow.
std::string FormatV(const char* format, va_list args) __attribute__((format(printf, 1, 0)));

/// "12.3 MB": in units of 10^6 bytes, one decimal.
std::string MegaBytes(size_t bytes);

/// A text that others wrote, as it may stand in a log and on a terminal: control characters, and bytes that are no
/// UTF-8, become "\x1b"; what is beyond the first `most` bytes is left out, and "..." says so.
std::string Printable(std::string_view text, size_t most = 2048);

}  // namespace hp
