#include "data/image_list.h"

#include "base/format.h"

#include <algorithm>
#include <charconv>

namespace hp {
namespace {

constexpr std::string_view kBlanks = " \t\r";

/// @param text a line without blanks at its end.
bool ParseLine(std::string_view text, ListedImage* image) {
  const size_t blank = text.find_last_of(kBlanks);
  if (blank == std::string_view::npos) return false;
  const size_t name_end = text.find_last_not_of(kBlanks, blank);
  const char* const last = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + blank + 1, last, image->label);
  const std::string_view fraction(rest, last);  // 3.0 is written by programs whose numbers are all floats
  const bool whole = fraction.empty() || (fraction[0] == '.' && fraction.find_first_not_of('0', 1) == fraction.npos);
  if (name_end == std::string_view::npos || error != std::errc() || !whole) return false;
  image->name = text.substr(0, name_end + 1);
  return true;
}

}  // namespace

StatusOr<std::vector<ListedImage>> ParseImageList(std::string_view text, const std::string& path) {
  std::vector<ListedImage> images;
  for (int line = 1; !text.empty(); ++line) {
    const size_t size = std::min(text.find('\n'), text.size());
    std::string_view words = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    words = words.substr(0, words.find_last_not_of(kBlanks) + 1);
    if (words.empty()) continue;
    ListedImage image;
    image.line = line;
    if (!ParseLine(words, &image)) {
      return InvalidArgument("%s:%d: \"%s\": expected the name of an image and a label, like \"cat/1.jpg 3\"",
                             path.c_str(), line, Printable(words).c_str());
    }
    images.push_back(std::move(image));
  }
  if (images.empty()) return InvalidArgument("list of images %s has no lines", path.c_str());
  return images;
}

}  // namespace hp
