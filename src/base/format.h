#pragma once

#include <cstdarg>
#include <cstddef>
#include <string>

namespace hp {

/// printf into a string.
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// The same for functions with `...` of their own. `args` is used up: only va_end may follow.
std::string FormatV(const char* format, va_list args) __attribute__((format(printf, 1, 0)));

/// "12.3 MB": in units of 10^6 bytes, one decimal.
std::string MegaBytes(size_t bytes);

}  // namespace hp
