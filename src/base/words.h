#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hp {

// For names in messages and flags: finding the one that a user meant, and lists of several.

/// The Levenshtein distance: the least number of bytes to insert, delete or replace to turn `a` into `b`. Case counts.
/// O(|a| |b|) time, O(|b|) memory.
size_t EditDistance(const std::string& a, const std::string& b);

/// "a, b, c"; empty if there are no words.
std::string Join(const std::vector<std::string>& words, const std::string& separator = ", ");

/// The items of a flag's list, as "a,b,c", without blanks around them; empty ones are left out.
std::vector<std::string> SplitList(const std::string& text);

}  // namespace hp
