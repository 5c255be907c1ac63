#pragma once

#include "hp/status.h"

#include <array>
#include <string>
#include <vector>

namespace hp {

/// How another program's tensors are called for the layers of a net, as a file of lines says it:
///
///     # A module, and the layer that has its weight and bias, or its running_mean and running_var.
///     fc               fc1000
///     # PyTorch's BatchNorm is two layers of Caffe's: BatchNorm, and Scale for weight and bias.
///     bn1              bn_conv1  scale_conv1
///     # One tensor, where those names are not what it has: blob 0 of layer scale1.
///     scale.gamma      = scale1 0
///     # The module's first layer of weights reads red, green, blue of 0 to 1 that were divided by these; the net's
///     reads # Caffe's blue, green, red of 0 to 255.
///     @rgb conv1       0.229 0.224 0.225
///
/// What follows # is a comment; names have no spaces. The file is UTF-8, with or without a byte order mark.
struct WeightNames {
  struct Module {
    std::string name;
    std::vector<std::string> layers;
    int line = 0;  ///< in the file; 0: none
  };
  struct Single {
    std::string tensor, layer;
    int blob = 0;
    int line = 0;
  };
  struct Colors {
    std::string layer;
    std::array<float, 3> std{};  ///< of red, green and blue, each above 0
    int line = 0;
  };

  std::string path;  ///< of the file, for messages
  std::vector<Module> modules;
  std::vector<Single> singles;
  std::vector<Colors> colors;

  /// "PATH:LINE", for messages.
  std::string At(int line) const { return path + ":" + std::to_string(line); }
};

/// Reads such a file. @return kNotFound: no such file; kInvalidArgument: it cannot be read, has a line of another form
/// or no name at all; names file and line.
StatusOr<WeightNames> ReadWeightNames(const std::string& path);

}  // namespace hp
