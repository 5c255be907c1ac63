#pragma once

#include <vector>

namespace hp {

/// One of the files of page/, which are part of the program.
struct PageFile {
  const char* path;  ///< under which the page asks for it
  const char* type;  ///< Content-Type
  const char* text;  ///< UTF-8
};
const std::vector<PageFile>& PageFiles();

}  // namespace hp
