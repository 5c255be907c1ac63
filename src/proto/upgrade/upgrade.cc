// Old forms are brought to the next one, and that to the one after it: V0 to V1, V1 to today's. Typed parameters have
// the same names and messages in V1 and today's form, so they are moved by name.
#include "proto/upgrade/upgrade.h"

#include "proto/upgrade/upgrade_v0.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace hp {
namespace {

using V1 = caffe::V1LayerParameter;
using google::protobuf::FieldDescriptor;

/// Today's names of the types.
const std::map<V1::LayerType, const char*>& Types() {
  static const std::map<V1::LayerType, const char*> kTypes = {
      {V1::ABSVAL, "AbsVal"},
      {V1::ACCURACY, "Accuracy"},
      {V1::ARGMAX, "ArgMax"},
      {V1::BNLL, "BNLL"},
      {V1::CONCAT, "Concat"},
      {V1::CONTRASTIVE_LOSS, "ContrastiveLoss"},
      {V1::CONVOLUTION, "Convolution"},
      {V1::DATA, "Data"},
      {V1::DECONVOLUTION, "Deconvolution"},
      {V1::DROPOUT, "Dropout"},
      {V1::DUMMY_DATA, "DummyData"},
      {V1::EUCLIDEAN_LOSS, "EuclideanLoss"},
      {V1::ELTWISE, "Eltwise"},
      {V1::EXP, "Exp"},
      {V1::FLATTEN, "Flatten"},
      {V1::HDF5_DATA, "HDF5Data"},
      {V1::HDF5_OUTPUT, "HDF5Output"},
      {V1::HINGE_LOSS, "HingeLoss"},
      {V1::IM2COL, "Im2col"},
      {V1::IMAGE_DATA, "ImageData"},
      {V1::INFOGAIN_LOSS, "InfogainLoss"},
      {V1::INNER_PRODUCT, "InnerProduct"},
      {V1::LRN, "LRN"},
      {V1::MEMORY_DATA, "MemoryData"},
      {V1::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
      {V1::MVN, "MVN"},
      {V1::POOLING, "Pooling"},
      {V1::POWER, "Power"},
      {V1::RELU, "ReLU"},
      {V1::SIGMOID, "Sigmoid"},
      {V1::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
      {V1::SILENCE, "Silence"},
      {V1::SLICE, "Slice"},
      {V1::SOFTMAX, "Softmax"},
      {V1::SOFTMAX_LOSS, "SoftmaxWithLoss"},
      {V1::SPLIT, "Split"},
      {V1::TANH, "TanH"},
      {V1::THRESHOLD, "Threshold"},
      {V1::WINDOW_DATA, "WindowData"},
  };
  return kTypes;
}

/// Moves every typed parameter that is set (convolution_param, ...).
void MoveTypedParameters(V1* from, caffe::LayerParameter* to) {
  std::vector<const FieldDescriptor*> fields;
  from->GetReflection()->ListFields(*from, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) continue;
    const FieldDescriptor* const same = to->GetDescriptor()->FindFieldByName(field->name());
    if (same == nullptr || same->message_type() != field->message_type()) continue;
    to->GetReflection()->MutableMessage(to, same)->CopyFrom(from->GetReflection()->GetMessage(*from, field));
  }
}

caffe::ParamSpec* ParamOf(int blob, caffe::LayerParameter* layer) {
  while (layer->param_size() <= blob) layer->add_param();
  return layer->mutable_param(blob);
}

Status UpgradeV1(V1* from, caffe::LayerParameter* to) {
  to->set_name(from->name());
  to->mutable_bottom()->Swap(from->mutable_bottom());
  to->mutable_top()->Swap(from->mutable_top());
  to->mutable_include()->Swap(from->mutable_include());
  to->mutable_exclude()->Swap(from->mutable_exclude());
  to->mutable_loss_weight()->Swap(from->mutable_loss_weight());
  to->mutable_blobs()->Swap(from->mutable_blobs());
  const auto type = Types().find(from->type());
  if (type == Types().end()) {
    return InvalidArgument(
        "layer \"%s\": an entry of \"layers\" without a type; expected type: CONVOLUTION or the like",
        from->name().c_str());
  }
  to->set_type(type->second);
  for (int i = 0; i < from->param_size(); ++i) ParamOf(i, to)->set_name(from->param(i));
  for (int i = 0; i < from->blob_share_mode_size(); ++i) {
    const bool strict = from->blob_share_mode(i) == V1::STRICT;
    ParamOf(i, to)->set_share_mode(strict ? caffe::ParamSpec::STRICT : caffe::ParamSpec::PERMISSIVE);
  }
  for (int i = 0; i < from->blobs_lr_size(); ++i) ParamOf(i, to)->set_lr_mult(from->blobs_lr(i));
  for (int i = 0; i < from->weight_decay_size(); ++i) ParamOf(i, to)->set_decay_mult(from->weight_decay(i));
  MoveTypedParameters(from, to);
  return OkStatus();
}

/// Moves the four fields of a data layer that transform_param has had since 2014.
template <typename Parameter>
void MoveTransform(Parameter* from, caffe::LayerParameter* layer) {
  caffe::TransformationParameter* const to = layer->mutable_transform_param();
  if (from->has_scale()) to->set_scale(from->scale());
  if (from->has_mean_file()) to->set_mean_file(from->mean_file());
  if (from->has_crop_size()) to->set_crop_size(from->crop_size());
  if (from->has_mirror()) to->set_mirror(from->mirror());
  from->clear_scale();
  from->clear_mean_file();
  from->clear_crop_size();
  from->clear_mirror();
}

template <typename Parameter>
bool HasTransform(const Parameter& data) {
  return data.has_scale() || data.has_mean_file() || data.has_crop_size() || data.has_mirror();
}

/// Of the type's own parameter alone, as Caffe: another one says nothing.
void UpgradeTransform(caffe::LayerParameter* layer) {
  const std::string& type = layer->type();
  if (type == "Data" && HasTransform(layer->data_param())) MoveTransform(layer->mutable_data_param(), layer);
  if (type == "ImageData" && HasTransform(layer->image_data_param())) {
    MoveTransform(layer->mutable_image_data_param(), layer);
  }
  if (type == "WindowData" && HasTransform(layer->window_data_param())) {
    MoveTransform(layer->mutable_window_data_param(), layer);
  }
}

/// Whether a BatchNorm of NVIDIA's has the Scale layer behind it inside: a filler for it says so as well, and in a file
/// of weights its five blobs, whatever number its fields have there.
bool HasScaleInside(const caffe::LayerParameter& layer) {
  if (layer.type() != "BatchNorm") return false;
  const caffe::BatchNormParameter& norm = layer.batch_norm_param();
  if (norm.scale_bias() || norm.has_scale_filler() || norm.has_bias_filler()) return true;
  return layer.blobs_size() == 5;
}

void SplitScaledBatchNorms(caffe::NetParameter* net, NetUpgrade* upgrade) {
  for (int i = 0; i < net->layer_size(); ++i) {
    if (!HasScaleInside(net->layer(i))) continue;
    caffe::BatchNormParameter* const norm = net->mutable_layer(i)->mutable_batch_norm_param();
    caffe::LayerParameter scale;
    scale.set_name(net->layer(i).name() + "_scale");
    scale.set_type("Scale");
    if (net->layer(i).top_size() > 0) {
      scale.add_bottom(net->layer(i).top(0));
      scale.add_top(net->layer(i).top(0));
    }
    *scale.mutable_include() = net->layer(i).include();
    *scale.mutable_exclude() = net->layer(i).exclude();
    scale.mutable_scale_param()->set_bias_term(true);
    if (norm->has_scale_filler()) *scale.mutable_scale_param()->mutable_filler() = norm->scale_filler();
    if (norm->has_bias_filler()) *scale.mutable_scale_param()->mutable_bias_filler() = norm->bias_filler();
    norm->clear_scale_bias();
    norm->clear_scale_filler();
    norm->clear_bias_filler();
    // Its five blobs: the three statistics, then factors and biases. Files of weights have them as well.
    auto* const blobs = net->mutable_layer(i)->mutable_blobs();
    for (int blob = 3; blob < blobs->size(); ++blob) scale.add_blobs()->Swap(blobs->Mutable(blob));
    if (blobs->size() > 3) blobs->DeleteSubrange(3, blobs->size() - 3);
    auto* const specs = net->mutable_layer(i)->mutable_param();
    for (int blob = 3; blob < specs->size(); ++blob) *scale.add_param() = specs->Get(blob);
    if (specs->size() > 3) specs->DeleteSubrange(3, specs->size() - 3);
    *net->add_layer() = std::move(scale);
    for (int at = net->layer_size() - 1; at > i + 1; --at) net->mutable_layer()->SwapElements(at, at - 1);
    upgrade->origins.insert(upgrade->origins.begin() + i + 1, upgrade->origins[i]);
    upgrade->forms.push_back("a BatchNorm with scale_bias (NVIDIA's Caffe), which becomes two layers");
    ++i;
  }
}

/// Caffe takes three param entries of a BatchNorm for those of the time when its blobs were learned, and freezes them.
/// Their names stay; without names they say nothing, and go.
/// @return whether one of them said that its blob learns.
bool UpgradeBatchNorm(caffe::LayerParameter* layer) {
  if (layer->type() != "BatchNorm" || layer->param_size() != 3) return false;
  const auto& specs = layer->param();
  const auto learns = [](const caffe::ParamSpec& spec) { return spec.lr_mult() != 0; };
  const bool changed = std::any_of(specs.begin(), specs.end(), learns);
  if (std::none_of(specs.begin(), specs.end(), [](const caffe::ParamSpec& spec) { return spec.has_name(); })) {
    layer->clear_param();
  }
  for (caffe::ParamSpec& spec : *layer->mutable_param()) {
    spec.set_lr_mult(0);
    spec.set_decay_mult(0);
  }
  return changed;
}

/// Clears the engine of a typed parameter that has none in Caffe. @return there was one.
template <typename Parameter>
bool DropAnyEngine(Parameter* parameter) {
  const bool dropped = parameter->has_engine();
  parameter->clear_engine();
  return dropped;
}

/// Clears the engine of a typed parameter, if it is one of Intel's, which Caffe cannot parse. @return it was one.
template <typename Parameter>
bool DropIntelsEngine(Parameter* parameter) {
  if (parameter->engine() < Parameter::MKL2017) return false;
  parameter->clear_engine();
  return true;
}

/// Forks' names of the library that computes, which is the node's choice.
void DropEngines(caffe::NetParameter* net, NetUpgrade* upgrade) {
  bool dropped = net->has_engine();
  net->clear_engine();
  for (caffe::LayerParameter& layer : *net->mutable_layer()) {
    dropped |= layer.has_engine();
    layer.clear_engine();
    if (layer.has_batch_norm_param()) dropped |= DropAnyEngine(layer.mutable_batch_norm_param());
    if (layer.has_concat_param()) dropped |= DropAnyEngine(layer.mutable_concat_param());
    if (layer.has_eltwise_param()) dropped |= DropAnyEngine(layer.mutable_eltwise_param());
    if (layer.has_inner_product_param()) dropped |= DropAnyEngine(layer.mutable_inner_product_param());
    if (layer.has_convolution_param()) dropped |= DropIntelsEngine(layer.mutable_convolution_param());
    if (layer.has_lrn_param()) dropped |= DropIntelsEngine(layer.mutable_lrn_param());
    if (layer.has_pooling_param()) dropped |= DropIntelsEngine(layer.mutable_pooling_param());
    if (layer.has_relu_param()) dropped |= DropIntelsEngine(layer.mutable_relu_param());
  }
  if (dropped) upgrade->forms.emplace_back("engines of a fork of Caffe, which are left out");
}

/// Whether it holds weights, as Caffe wrote them before inputs had shapes.
bool IsOfWeights(const caffe::NetParameter& net) {
  const auto& layers = net.layer();
  return net.input_shape_size() == 0 && net.input_dim_size() == 0 &&
         std::any_of(layers.begin(), layers.end(),
                     [](const caffe::LayerParameter& layer) { return layer.blobs_size() > 0; });
}

/// Caffe takes input_shape where there is input_dim as well, and lets more of them be than it needs.
Status CheckInputs(const caffe::NetParameter& net) {
  const int inputs = net.input_size(), shapes = net.input_shape_size(), dims = net.input_dim_size();
  if (shapes > 0 ? shapes >= inputs : dims >= 4 * inputs) return OkStatus();
  return InvalidArgument(
      "the net has %d input, %d input_shape and %d input_dim; expected one input_shape, or four input_dim, for each "
      "input",
      inputs, shapes, dims);
}

/// An Input layer in front of all others.
void UpgradeInputs(caffe::NetParameter* net, NetUpgrade* upgrade) {
  caffe::LayerParameter input;
  input.set_name("input");
  input.set_type("Input");
  for (int i = 0; i < net->input_size(); ++i) {
    input.add_top(net->input(i));
    caffe::BlobShape* const shape = input.mutable_input_param()->add_shape();
    if (net->input_shape_size() > 0) *shape = net->input_shape(i);
    for (int d = 0; net->input_shape_size() == 0 && d < 4; ++d) shape->add_dim(net->input_dim(4 * i + d));
  }
  net->clear_input();
  net->clear_input_shape();
  net->clear_input_dim();
  *net->add_layer() = std::move(input);
  for (int i = net->layer_size() - 1; i > 0; --i) net->mutable_layer()->SwapElements(i, i - 1);
  upgrade->origins.insert(upgrade->origins.begin(), {NetUpgrade::Origin::kInput, 0});
  upgrade->forms.push_back("input fields instead of an Input layer");
}

/// Today's name of an old type.
const char* TypeOf(caffe::SolverParameter::SolverType type) {
  switch (type) {
    case caffe::SolverParameter::NESTEROV:
      return "Nesterov";
    case caffe::SolverParameter::ADAGRAD:
      return "AdaGrad";
    case caffe::SolverParameter::RMSPROP:
      return "RMSProp";
    case caffe::SolverParameter::ADADELTA:
      return "AdaDelta";
    case caffe::SolverParameter::ADAM:
      return "Adam";
    case caffe::SolverParameter::SGD:
      break;
  }
  return "SGD";
}

/// As Caffe, which refuses both fields together even where they agree.
Status UpgradeType(caffe::SolverParameter* solver) {
  if (!solver->has_solver_type()) return OkStatus();
  const char* const type = TypeOf(solver->solver_type());
  if (solver->has_type()) {
    return InvalidArgument("solver_type: %s beside type: \"%s\"; expected type alone, whose old form solver_type is",
                           caffe::SolverParameter::SolverType_Name(solver->solver_type()).c_str(),
                           solver->type().c_str());
  }
  solver->set_type(type);
  solver->clear_solver_type();
  return OkStatus();
}

Status UpgradeWarmUp(caffe::SolverParameter* solver) {
  if (!solver->has_rampup_interval() && !solver->has_rampup_lr()) return OkStatus();
  const char* const field = solver->has_rampup_interval() ? "rampup_interval" : "rampup_lr";
  if (solver->has_warmup_iter() || solver->has_warmup_start_lr()) {
    return InvalidArgument(
        "%s: a warm-up by rampup_interval or rampup_lr (NVIDIA's Caffe) and by warmup_iter or warmup_start_lr "
        "(Intel's); expected one of them",
        field);
  }
  if (solver->has_rampup_interval()) solver->set_warmup_iter(solver->rampup_interval());
  if (solver->has_rampup_lr()) solver->set_warmup_start_lr(solver->rampup_lr());
  solver->clear_rampup_interval();
  solver->clear_rampup_lr();
  return OkStatus();
}

}  // namespace

Status AtOrigin(const Status& status, const NetUpgrade::Origin& origin, const PlaceOfOrigin& place_of) {
  const std::string place = place_of ? place_of(origin) : "";
  return place.empty() ? status : status.Prepend(place);
}

StatusOr<NetUpgrade> UpgradeNet(caffe::NetParameter* net, const PlaceOfOrigin& place_of) {
  using Origin = NetUpgrade::Origin;
  NetUpgrade upgrade;
  if (net->layer_size() > 0 && net->layers_size() > 0) {
    const Status both =
        InvalidArgument("the net has both \"layer\" and \"layers\" (the form of %d); expected one of them",
                        HasV0Layers(*net) ? 2013 : 2014);
    return AtOrigin(both, {Origin::kLayers, 0}, place_of);
  }
  if (net->layers_size() > 0) {
    const bool v0 = HasV0Layers(*net);
    upgrade.forms.push_back(v0 ? "\"layers\" of the form of 2013" : "\"layers\" of the form of 2014");
    for (int i = 0; i < net->layers_size(); ++i) upgrade.origins.push_back({Origin::kLayers, i});
    if (v0) HP_RETURN_IF_ERROR(UpgradeV0(net, place_of, &upgrade.origins));
    for (int i = 0; i < net->layers_size(); ++i) {
      HP_RETURN_IF_ERROR(AtOrigin(UpgradeV1(net->mutable_layers(i), net->add_layer()), upgrade.origins[i], place_of));
    }
    net->clear_layers();
    for (caffe::LayerParameter& layer : *net->mutable_layer()) UpgradeTransform(&layer);
  } else {
    for (int i = 0; i < net->layer_size(); ++i) upgrade.origins.push_back({Origin::kLayer, i});
  }
  DropEngines(net, &upgrade);
  SplitScaledBatchNorms(net, &upgrade);
  bool froze = false;
  for (caffe::LayerParameter& layer : *net->mutable_layer()) froze |= UpgradeBatchNorm(&layer);
  if (froze) upgrade.forms.emplace_back("three param entries of a BatchNorm, which learns none of its blobs");
  if (net->input_size() > 0 && IsOfWeights(*net)) {
    net->clear_input();
    upgrade.forms.emplace_back("inputs without shapes in a file of weights, which are left out");
  } else if (net->input_size() > 0) {
    HP_RETURN_IF_ERROR(AtOrigin(CheckInputs(*net), {Origin::kInput, 0}, place_of));
    UpgradeInputs(net, &upgrade);
  }
  net->clear_input_shape();  // without an input they say nothing, as in Caffe
  net->clear_input_dim();
  return upgrade;
}

std::string OldNameOf(const std::string& field) {
  if (field == "type") return "solver_type";
  if (field == "warmup_iter") return "rampup_interval";
  return field == "warmup_start_lr" ? "rampup_lr" : "";
}

Status UpgradeSolver(caffe::SolverParameter* solver) {
  solver->clear_engine();
  HP_RETURN_IF_ERROR(UpgradeType(solver));
  return UpgradeWarmUp(solver);
}

}  // namespace hp
