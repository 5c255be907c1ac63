#include "layers/traits/layer_types.h"

#include "base/words.h"
#include "layers/traits/built_in_types.h"
#include "proto/caffe.pb.h"
#include "proto/caffe_types.h"

#include <strings.h>

#include <algorithm>

namespace hp {
namespace {

std::string Lower(std::string name) {
  for (char& letter : name) letter = static_cast<char>(tolower(letter));
  return name;
}

/// Whether a user who wrote `name` may have meant `type`: few slips, or one is the beginning of the other.
bool IsNear(const std::string& name, const std::string& type) {
  const size_t shorter = std::min(name.size(), type.size());
  const bool begins = shorter >= 3 && strncasecmp(name.c_str(), type.c_str(), shorter) == 0;
  return begins || EditDistance(Lower(name), Lower(type)) <= std::max<size_t>(1, type.size() / 3);
}

}  // namespace

bool LayerType::HasField(const std::string& field) const {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

const LayerTypes& LayerTypes::BuiltIn() {
  static const LayerTypes kTypes({
      AbsValType(),      AccuracyType(),     ArgMaxType(),        BatchNormType(),     BiasType(),
      BnllType(),        ClipType(),         ConcatType(),        ContrastiveType(),   ConvolutionType(),
      CropType(),        DataType(),         DeconvolutionType(), DropoutType(),       DummyDataType(),
      EltwiseType(),     EluType(),          EmbedType(),         EuclideanLossType(), ExpType(),
      FlattenType(),     Hdf5DataType(),     Hdf5OutputType(),    HingeLossType(),     Im2colType(),
      ImageDataType(),   InfogainLossType(), InnerProductType(),  InputType(),         LogisticLossType(),
      LogType(),         LrnType(),          MvnType(),           ParameterType(),     PoolingType(),
      PowerType(),       PreluType(),        ReductionType(),     ReluType(),          ReshapeType(),
      ScaleType(),       SigmoidLossType(),  SigmoidType(),       SilenceType(),       SliceType(),
      SoftmaxLossType(), SoftmaxType(),      SplitType(),         SppType(),           SwishType(),
      TanhType(),        ThresholdType(),    TileType(),
  });
  return kTypes;
}

LayerTypes::LayerTypes(std::vector<LayerType> types) : types_(std::move(types)) {}

LayerTypes LayerTypes::With(LayerType type) const {
  std::vector<LayerType> types = types_;
  std::erase_if(types, [&](const LayerType& other) { return std::string(other.name) == type.name; });
  types.push_back(std::move(type));
  return LayerTypes(std::move(types));
}

const LayerType* LayerTypes::Find(const std::string& name) const {
  for (const LayerType& type : types_) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

bool LayerTypes::IsSource(const caffe::LayerParameter& param) const {
  if (const LayerType* type = Find(param.type())) return type->source != SourceKind::kNone;
  const CaffeType* caffe = FindCaffeType(param.type());
  return caffe != nullptr && caffe->source;
}

bool LayerTypes::IsDataset(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->source == SourceKind::kDataset;
}

int64_t LayerTypes::BatchSize(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->batch_size != nullptr ? type->batch_size(param) : -1;
}

bool LayerTypes::HasSmallBlobs(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->small_blobs;
}

bool LayerTypes::UsesBatchStatistics(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->batch_statistics != nullptr && type->batch_statistics(param);
}

bool LayerTypes::HasParameters(const caffe::LayerParameter& param) const {
  if (const LayerType* type = Find(param.type())) return type->most_blobs > 0;
  const CaffeType* caffe = FindCaffeType(param.type());
  return caffe != nullptr && caffe->parameters;
}

std::optional<int64_t> LayerTypes::SplitOutputs(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  if (type == nullptr || type->split_outputs == nullptr) return std::nullopt;
  const int64_t outputs = type->split_outputs(param);
  return outputs > 0 ? std::optional(outputs) : std::nullopt;
}

bool LayerTypes::SplitsInputs(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->split_inputs != nullptr && type->split_inputs(param);
}

bool LayerTypes::ReadsLabels(const caffe::LayerParameter& param, int bottom) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && (type->reads_labels || type->label_targets) &&
         bottom == static_cast<int>(type->label_bottom);
}

bool LayerTypes::Discards(const caffe::LayerParameter& param) const {
  const LayerType* type = Find(param.type());
  return type != nullptr && type->discards;
}

std::string LayerTypes::DescribeUnsupported(const std::string& name) const {
  if (const CaffeType* caffe = FindCaffeType(name)) {
    const std::string known = "type " + name + " is a Caffe layer that hpnode does not support";
    return caffe->reason == nullptr ? known : known + ": " + caffe->reason;
  }
  if (const ForkType* fork = FindForkType(name)) return DescribeForkType(*fork);
  std::vector<std::string> near;
  for (const LayerType& type : types_) {
    if (IsNear(name, type.name)) near.push_back(type.name);
  }
  // Caffe's names differ in case from what one expects; then no other is meant.
  for (const LayerType& type : types_) {
    if (Lower(name) == Lower(type.name)) near = {type.name};
  }
  return near.empty() ? DescribeStrangeType(name) : "unknown type \"" + name + "\"; did you mean " + Join(near) + "?";
}

}  // namespace hp
