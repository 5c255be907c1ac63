#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <string>

namespace hp {

/// The same error with "FILE:LINE: " in front, the place of a layer, if its message begins with the name of one ('layer
/// "conv1": ...') of that phase; else unchanged. Layers of two phases may have one name: name the phase wherever it is
/// known.
/// @param net of ReadNet or NetOfSolver, whole; a layer of another net has no place, and then nothing comes in front.
Status AtLayer(const Status& status, const caffe::NetParameter& net, Phase phase);
/// The same where the phase is not known: the first layer of the name.
Status AtLayer(const Status& status, const caffe::NetParameter& net);
/// The same for the layer at hand, whatever the message begins with.
Status AtLayer(const Status& status, const caffe::LayerParameter& layer);

/// The same error with "FILE:LINE: " in front of each of its lines that begins with the name of a field ("momentum: -1;
/// expected ...") which stands in the solver's file, and with "FILE: " in front of the others. A field that stands
/// there under its old name (UpgradeSolver) is called by that. Reads the file again.
/// @param status of CheckSolver.
Status AtFields(const Status& status, const std::string& solver_path);

}  // namespace hp
