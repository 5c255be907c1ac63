#include "base/format.h"

#include <algorithm>
#include <cstdio>

namespace hp {
namespace {

/// Bytes of the character at the start of `text`, which is not empty; 0: a control character, or no UTF-8. Longer
/// encodings of a character than it needs are none, since a terminal may take them for it.
size_t PrintableBytes(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [byte](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= ' ' && first != 0x7F ? 1 : 0;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) && !(first == 0xC2 && byte(1) < 0xA0) ? 2 : 0;
  if (!follows(1) || !follows(2)) return 0;
  if (first >= 0xE0 && first <= 0xEF) {
    return (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ? 0 : 3;
  }
  const bool in_range =
      first >= 0xF0 && first <= 0xF4 && !(first == 0xF0 && byte(1) < 0x90) && !(first == 0xF4 && byte(1) >= 0x90);
  return in_range && follows(3) ? 4 : 0;
}

}  // namespace

std::string FormatV(const char* format, va_list args) {
  va_list copy;
  va_copy(copy, args);
  const int length = vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string text(length > 0 ? length : 0, '\0');
  if (length > 0) vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

std::string Format(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = FormatV(format, args);
  va_end(args);
  return text;
}

std::string Printable(std::string_view text, size_t most) {
  std::string printable;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = PrintableBytes(text.substr(at));
    if (at + std::max<size_t>(bytes, 1) > most) return printable + "...";
    printable += bytes > 0 ? std::string(text.substr(at, bytes)) : Format("\\x%02x", text[at] & 0xFF);
    at += std::max<size_t>(bytes, 1);
  }
  return printable;
}

std::string MegaBytes(size_t bytes) { return Format("%.1f MB", static_cast<double>(bytes) / 1e6); }

}  // namespace hp
