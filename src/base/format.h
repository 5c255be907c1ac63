#pragma once

#include <cstdarg>
#include <cstddef>
#include <string>

namespace hp {

/// printf into a string.
std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string FormatV(const char* format, va_list args) __attribute__((format(printf, 1, 0)));

/// "12.3 MB", of 10^6 bytes.
std::string MegaBytes(size_t bytes);

}  // namespace hp
