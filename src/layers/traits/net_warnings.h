#pragma once

#include <string>
#include <vector>

namespace caffe {
class NetParameter;
}  // namespace caffe

namespace hp {

class LayerTypes;

/// What the prototxt of a net says without effect, here as in Caffe, which reads and forgets it: a line for each layer
/// and field, `layer "NAME": FIELD ... is ignored, as in Caffe: ...`; where many say the same, one for the first with
/// their number. Only layers that LayerTraits::Create accepts count; a program says these lines once, where a user
/// looks for what may be wrong.
/// @param net of all phases, as ReadNet gives it. @param trains false: of a program that only evaluates, without the
/// lines about training.
std::vector<std::string> NetWarnings(const caffe::NetParameter& net, const LayerTypes& types, bool trains = true);

}  // namespace hp
