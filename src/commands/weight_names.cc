#include "commands/weight_names.h"

#include "base/format.h"
#include "base/input_file.h"

#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

namespace hp {
namespace {

using Words = std::vector<std::string>;

template <typename T>
bool TakeWord(const std::string& word, T* value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *value);
  return error == std::errc() && end == word.data() + word.size();
}

/// @return false: the words are no such line.
bool TakeColors(const Words& words, int line, WeightNames* names) {
  if (words.size() != 5) return false;
  WeightNames::Colors colors{words[1], {}, line};
  for (size_t i = 0; i < colors.std.size(); ++i) {
    if (!TakeWord(words[2 + i], &colors.std[i]) || !(colors.std[i] > 0) || std::isinf(colors.std[i])) return false;
  }
  names->colors.push_back(std::move(colors));
  return true;
}

bool TakeSingle(const Words& words, int line, WeightNames* names) {
  WeightNames::Single single{words[0], "", 0, line};
  if (words.size() != 4 || !TakeWord(words[3], &single.blob) || single.blob < 0) return false;
  single.layer = words[2];
  names->singles.push_back(std::move(single));
  return true;
}

Status TakeLine(const Words& words, int line, WeightNames* names) {
  if (words[0][0] == '@') {
    if (words[0] == "@rgb" && TakeColors(words, line, names)) return OkStatus();
    return InvalidArgument(
        "expected \"@rgb LAYER RED GREEN BLUE\" with three numbers above 0, such as 0.229 0.224 0.225");
  }
  if (words.size() > 1 && words[1] == "=") {
    if (TakeSingle(words, line, names)) return OkStatus();
    return InvalidArgument("expected \"TENSOR = LAYER BLOB\" with the number of a blob, counted from 0");
  }
  if (words.size() < 2) return InvalidArgument("expected \"MODULE LAYER ...\" or \"TENSOR = LAYER BLOB\"");
  names->modules.push_back({words[0], Words(words.begin() + 1, words.end()), line});
  return OkStatus();
}

}  // namespace

StatusOr<WeightNames> ReadWeightNames(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  WeightNames names;
  names.path = path;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // that some editors write in front
  std::istringstream lines(text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream stream(line.substr(0, line.find('#')));
    Words words;
    for (std::string word; stream >> word;) words.push_back(Printable(word));
    if (!words.empty()) HP_RETURN_IF_ERROR(TakeLine(words, number, &names).Prepend(names.At(number)));
  }
  if (!names.modules.empty() || !names.singles.empty()) return names;
  return InvalidArgument("%s: names no layer; expected lines \"MODULE LAYER ...\"", path.c_str());
}

}  // namespace hp
