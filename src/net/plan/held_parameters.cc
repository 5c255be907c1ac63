#include "net/plan/held_parameters.h"

#include <algorithm>

namespace hp {
namespace {

/// A blob with these values at the beginning, from this axis of the first bottom on.
template <typename Param>
void LearnItself(int axes, caffe::FillerParameter* filler, Param* param) {
  param->set_num_axes(axes);
  filler->Clear();
  filler->set_type("constant");
  filler->set_value(0);
}

/// What the layer with one bottom that stands in its place would take for its own.
Status CheckReader(const caffe::LayerParameter& reader, const std::string& bottom) {
  const int axis = reader.type() == "Scale" ? reader.scale_param().axis() : reader.bias_param().axis();
  if (axis == 0) {
    return InvalidArgument(
        "layer \"%s\": axis: 0, so that bottom \"%s\", a Parameter, has a number for each row of a batch; expected "
        "axis 1 or more",
        reader.name().c_str(), bottom.c_str());
  }
  if (reader.scale_param().bias_term()) {
    return InvalidArgument(
        "layer \"%s\": scale_param { bias_term: true } with a Parameter for its second bottom is not supported; "
        "expected a layer of type Bias behind it",
        reader.name().c_str());
  }
  if (reader.param_size() > 0 || reader.blobs_size() > 0) {
    return InvalidArgument(
        "layer \"%s\": has param or blobs, but no blob of its own; its second bottom is a Parameter, and "
        "these belong there",
        reader.name().c_str());
  }
  if (reader.propagate_down_size() == 0 || reader.propagate_down_size() == 2) return OkStatus();
  return InvalidArgument("layer \"%s\": has 2 bottoms and %d propagate_down values; expected none, or one for each",
                         reader.name().c_str(), reader.propagate_down_size());
}

}  // namespace

Status HeldParameters::Add(const caffe::LayerParameter& layer) {
  if (parameters_.try_emplace(layer.top(0), Parameter{&layer, ""}).second) return OkStatus();
  return InvalidArgument("layer \"%s\": top \"%s\" is already produced by layer \"%s\"", layer.name().c_str(),
                         layer.top(0).c_str(), parameters_.at(layer.top(0)).layer->name().c_str());
}

StatusOr<HeldParameters::Holder> HeldParameters::HolderOf(const caffe::LayerParameter& reader) {
  const auto& bottoms = reader.bottom();
  const auto bottom = std::find_if(bottoms.begin(), bottoms.end(),
                                   [this](const std::string& name) { return parameters_.contains(name); });
  if (bottom == bottoms.end()) return Holder();
  Parameter& parameter = parameters_.at(*bottom);
  const bool scale = reader.type() == "Scale";
  if ((!scale && reader.type() != "Bias") || bottoms.size() != 2 || bottom - bottoms.begin() != 1) {
    return InvalidArgument(
        "layer \"%s\": bottom \"%s\" is that of a Parameter, which has no rows of samples; only a Scale or Bias reads "
        "it, as its second bottom",
        reader.name().c_str(), bottom->c_str());
  }
  HP_RETURN_IF_ERROR(CheckReader(reader, *bottom));
  if (!parameter.reader.empty()) {
    return InvalidArgument("layer \"%s\": bottom \"%s\" is read by layer \"%s\" as well; expected a Parameter for each",
                           reader.name().c_str(), bottom->c_str(), parameter.reader.c_str());
  }
  parameter.reader = reader.name();
  auto held = std::make_unique<caffe::LayerParameter>(reader);
  const caffe::LayerParameter& layer = *parameter.layer;
  const int axes = layer.parameter_param().shape().dim_size();
  if (scale) {
    LearnItself(axes, held->mutable_scale_param()->mutable_filler(), held->mutable_scale_param());
  } else {
    LearnItself(axes, held->mutable_bias_param()->mutable_filler(), held->mutable_bias_param());
  }
  held->mutable_bottom()->RemoveLast();
  held->set_name(layer.name());
  *held->mutable_param() = layer.param();
  *held->mutable_blobs() = layer.blobs();
  if (held->propagate_down_size() == 2 && !held->propagate_down(1)) {
    if (held->param_size() == 0) held->add_param();
    held->mutable_param(0)->set_lr_mult(0);
  }
  held->mutable_propagate_down()->Truncate(std::min(held->propagate_down_size(), 1));
  return Holder{std::move(held), &layer};
}

Status HeldParameters::CheckAllRead(Phase phase) const {
  for (const auto& [top, parameter] : parameters_) {
    if (!parameter.reader.empty()) continue;
    return InvalidArgument(
        "layer \"%s\": no layer of phase %s reads its top \"%s\"; expected a Scale or Bias that does, or the same "
        "include rules as it has",
        parameter.layer->name().c_str(), phase.name().c_str(), top.c_str());
  }
  return OkStatus();
}

}  // namespace hp
