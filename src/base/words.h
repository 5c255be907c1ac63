#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hp {

// Names in messages: which one was meant, and lists of them.

/// Levenshtein's distance: how many letters to insert, delete or replace to make `b` of `a`. Upper and lower case
/// differ. O(|a| |b|) time.
size_t EditDistance(const std::string& a, const std::string& b);

/// "a, b, c"; empty if there are no words.
std::string Join(const std::vector<std::string>& words);

}  // namespace hp
