#include "base/words.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace hp {

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : separator) + word;
  return joined;
}

std::vector<std::string> SplitList(const std::string& text) {
  constexpr char kBlanks[] = " \t\r\n";
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    const size_t begin = item.find_first_not_of(kBlanks);
    if (begin != std::string::npos) items.push_back(item.substr(begin, item.find_last_not_of(kBlanks) + 1 - begin));
  }
  return items;
}

}  // namespace hp
