#pragma once

#include "hp/status.h"

#include <string>
#include <string_view>
#include <vector>

namespace hp {

/// One line of a list of images.
struct ListedImage {
  std::string name;  ///< of its file, as written; it may have blanks in it
  int label = 0;     ///< any; whoever reads it says which there are
  int line = 0;      ///< in the list, from 1
};

/// Reads the text of a list with "name label" in each line, as Caffe's convert_imageset and ImageData do: the label is
/// what follows the last blank. Lines without any text are skipped. Any thread.
/// @param path of the list, for messages.
/// @return at least one image; kInvalidArgument: a line without an integer as its label (list and line are named), or
/// no lines.
StatusOr<std::vector<ListedImage>> ParseImageList(std::string_view text, const std::string& path);

}  // namespace hp
