#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <functional>
#include <string>
#include <vector>

namespace hp {

/// What UpgradeNet did to a net.
struct NetUpgrade {
  /// Which forms of old or of forks it had, in words, for a log line: "layers { } of 2014"; empty: it was in today's
  /// form.
  std::vector<std::string> forms;
  /// Where each layer of the result stood in the old net.
  struct Origin {
    enum Field { kLayer, kLayers, kInput } field = kLayer;
    int index = 0;  ///< among the entries of that field; kInput: 0
  };
  std::vector<Origin> origins;  ///< one for each layer
};

/// Says where an entry of a net stands: "FILE:LINE", or "" where that is not known.
using PlaceOfOrigin = std::function<std::string(const NetUpgrade::Origin&)>;

/// Brings a net of any of Caffe's older forms into today's: `layers` with enum types (2014, V1) and those with a
/// `layer` inside (2013, V0), whose padding layers become the pad of the layer that reads them; fields of data layers
/// that moved to transform_param; `input` fields, which become an Input layer; the three param of a BatchNorm. And of
/// forks: a BatchNorm of NVIDIA's with a Scale inside becomes both, and engines that Caffe does not know go. What it
/// yields is what the same net written today would be, so that nodes with files of different ages agree. Blobs inside
/// the layers are moved along.
/// @param place_of comes in front of errors; null: nothing does.
/// @return kInvalidArgument, the first fault: both `layer` and `layers`, or an old layer that no layer of today's says,
/// as 'FILE:LINE: layer "NAME": what; expected ...'.
/// Source of the rules: Caffe, src/caffe/util/upgrade_proto.cpp.
StatusOr<NetUpgrade> UpgradeNet(caffe::NetParameter* net, const PlaceOfOrigin& place_of = nullptr);

/// The same error with the origin's place in front, where that is known.
Status AtOrigin(const Status& status, const NetUpgrade::Origin& origin, const PlaceOfOrigin& place_of);

/// Brings a solver's fields into today's form: solver_type into type, and NVIDIA's names of a warm-up (rampup_interval,
/// rampup_lr) into Intel's; Intel's `engine` goes.
/// @return kInvalidArgument: both forms are there, as "FIELD: ..." of the old one.
Status UpgradeSolver(caffe::SolverParameter* solver);

/// The name of the field that UpgradeSolver makes `field` of: "rampup_lr" of "warmup_start_lr". "": there is none.
std::string OldNameOf(const std::string& field);

}  // namespace hp
