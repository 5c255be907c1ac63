// A V0 layer has the fields of all types in one message. A table says which typed parameter of V1 each of them went to;
// values are moved as text, which knows their types.
#include "proto/upgrade/upgrade_v0.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace hp {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using V0 = caffe::V0LayerParameter;
using V1 = caffe::V1LayerParameter;

/// The types of 2013: what they are called in 2014, and where most of their fields went; null: they have none.
struct TypeOf2013 {
  V1::LayerType type;
  const char* parameter;
};
const std::map<std::string, TypeOf2013>& TypesOf2013() {
  static const std::map<std::string, TypeOf2013> kTypes = {
      {"accuracy", {V1::ACCURACY, nullptr}},
      {"bnll", {V1::BNLL, nullptr}},
      {"concat", {V1::CONCAT, "concat_param"}},
      {"conv", {V1::CONVOLUTION, "convolution_param"}},
      {"data", {V1::DATA, "data_param"}},
      {"dropout", {V1::DROPOUT, "dropout_param"}},
      {"euclidean_loss", {V1::EUCLIDEAN_LOSS, nullptr}},
      {"flatten", {V1::FLATTEN, nullptr}},
      {"hdf5_data", {V1::HDF5_DATA, "hdf5_data_param"}},
      {"hdf5_output", {V1::HDF5_OUTPUT, nullptr}},
      {"im2col", {V1::IM2COL, nullptr}},
      {"images", {V1::IMAGE_DATA, "image_data_param"}},
      {"infogain_loss", {V1::INFOGAIN_LOSS, "infogain_loss_param"}},
      {"innerproduct", {V1::INNER_PRODUCT, "inner_product_param"}},
      {"lrn", {V1::LRN, "lrn_param"}},
      {"multinomial_logistic_loss", {V1::MULTINOMIAL_LOGISTIC_LOSS, nullptr}},
      {"pool", {V1::POOLING, "pooling_param"}},
      {"relu", {V1::RELU, nullptr}},
      {"sigmoid", {V1::SIGMOID, nullptr}},
      {"softmax", {V1::SOFTMAX, nullptr}},
      {"softmax_loss", {V1::SOFTMAX_LOSS, nullptr}},
      {"split", {V1::SPLIT, nullptr}},
      {"tanh", {V1::TANH, nullptr}},
      {"window_data", {V1::WINDOW_DATA, "window_data_param"}},
  };
  return kTypes;
}

/// A field of 2013: its name since, which types have it, and where it went.
struct FieldOf2013 {
  const char* now;
  std::vector<std::string> types;
  const char* parameter = nullptr;  ///< null: that of the type
};
const std::map<std::string, FieldOf2013>& FieldsOf2013() {
  static const std::map<std::string, FieldOf2013> kFields = {
      {"alpha", {"alpha", {"lrn"}}},
      {"batchsize", {"batch_size", {"data", "hdf5_data", "images", "window_data"}}},
      {"beta", {"beta", {"lrn"}}},
      {"bias_filler", {"bias_filler", {"conv", "innerproduct"}}},
      {"biasterm", {"bias_term", {"conv", "innerproduct"}}},
      {"concat_dim", {"concat_dim", {"concat"}}},
      {"cropsize", {"crop_size", {"data", "images", "window_data"}, "transform_param"}},
      {"det_bg_threshold", {"bg_threshold", {"window_data"}}},
      {"det_context_pad", {"context_pad", {"window_data"}}},
      {"det_crop_mode", {"crop_mode", {"window_data"}}},
      {"det_fg_fraction", {"fg_fraction", {"window_data"}}},
      {"det_fg_threshold", {"fg_threshold", {"window_data"}}},
      {"dropout_ratio", {"dropout_ratio", {"dropout"}}},
      {"group", {"group", {"conv"}}},
      {"k", {"k", {"lrn"}}},
      {"kernelsize", {"kernel_size", {"conv", "pool"}}},
      {"local_size", {"local_size", {"lrn"}}},
      {"meanfile", {"mean_file", {"data", "images", "window_data"}, "transform_param"}},
      {"mirror", {"mirror", {"data", "images", "window_data"}, "transform_param"}},
      {"new_height", {"new_height", {"images"}}},
      {"new_width", {"new_width", {"images"}}},
      {"num_output", {"num_output", {"conv", "innerproduct"}}},
      {"pad", {"pad", {"conv", "pool"}}},
      {"pool", {"pool", {"pool"}}},
      {"rand_skip", {"rand_skip", {"data", "images"}}},
      {"scale", {"scale", {"data", "images", "window_data"}, "transform_param"}},
      {"shuffle_images", {"shuffle", {"images"}}},
      {"source", {"source", {"data", "hdf5_data", "images", "infogain_loss", "window_data"}}},
      {"stride", {"stride", {"conv", "pool"}}},
      {"weight_filler", {"weight_filler", {"conv", "innerproduct"}}},
  };
  return kFields;
}

/// "stride: 2", or of a message "weight_filler { ... }".
std::string AsText(const V0& layer, const FieldDescriptor* field, const char* name) {
  std::string value;
  TextFormat::PrintFieldValueToString(layer, field, -1, &value);
  const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  return name + (message ? " {" + value + "}" : ": " + value);
}

/// Adds what the field says to the V1 layer. @return false: the type has no such field, or its value does not fit.
bool MoveField(const V0& from, const FieldDescriptor* field, const TypeOf2013& type, V1* to) {
  const auto known = FieldsOf2013().find(field->name());
  if (known == FieldsOf2013().end()) return false;
  const FieldOf2013& now = known->second;
  if (std::find(now.types.begin(), now.types.end(), from.type()) == now.types.end()) return false;
  const std::string parameter = now.parameter != nullptr ? now.parameter : type.parameter;
  return TextFormat::MergeFromString(parameter + " {" + AsText(from, field, now.now) + "}", to);
}

Status UpgradeLayer(V0* from, V1* to) {
  const auto type = TypesOf2013().find(from->type());
  if (type == TypesOf2013().end()) {
    return InvalidArgument("layer \"%s\": type \"%s\" is no type of the form of 2013; expected conv, pool or the like",
                           from->name().c_str(), from->type().c_str());
  }
  to->set_type(type->second.type);
  to->set_name(from->name());
  to->mutable_blobs()->Swap(from->mutable_blobs());
  to->mutable_blobs_lr()->Swap(from->mutable_blobs_lr());
  to->mutable_weight_decay()->Swap(from->mutable_weight_decay());
  if (type->second.type == V1::HDF5_OUTPUT && from->has_hdf5_output_param()) {
    *to->mutable_hdf5_output_param() = from->hdf5_output_param();
    from->clear_hdf5_output_param();
  }
  std::vector<const FieldDescriptor*> fields;
  from->GetReflection()->ListFields(*from, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->name() == "name" || field->name() == "type" || MoveField(*from, field, type->second, to)) continue;
    // Files that were made of one of window_data have these left over.
    if (from->type() == "data" && field->name().starts_with("det_")) continue;
    return InvalidArgument("layer \"%s\": field \"%s\" does not belong to a layer of type %s (of the form of 2013)",
                           from->name().c_str(), field->name().c_str(), from->type().c_str());
  }
  return OkStatus();
}

/// Beside the layer inside stand only the names of what it reads and makes.
Status CheckForm(const V1& layer) {
  if (!layer.has_layer()) {
    return InvalidArgument("layer \"%s\": of the form of 2014 in a net of the form of 2013; expected one of them",
                           layer.name().c_str());
  }
  std::vector<const FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string& name = field->name();
    if (name == "layer" || name == "bottom" || name == "top") continue;
    if (layer.layer().GetDescriptor()->FindFieldByName(name) == nullptr) {
      return InvalidArgument(
          "layer \"%s\": field \"%s\" is none of the form of 2013, beside the layer inside or in it; "
          "only nets of today's form can have it",
          layer.layer().name().c_str(), name.c_str());
    }
    return InvalidArgument("layer \"%s\": field \"%s\" stands beside the layer inside; expected it in there",
                           layer.layer().name().c_str(), name.c_str());
  }
  return OkStatus();
}

bool IsPadding(const V1& layer) { return layer.layer().type() == "padding"; }

/// Gives the padding of the layer that makes `bottom` to its reader. @return ok as well where nothing pads it.
Status FoldPadding(const std::map<std::string, V1>& paddings, V1* reader) {
  for (std::string& bottom : *reader->mutable_bottom()) {
    const auto padding = paddings.find(bottom);
    if (padding == paddings.end()) continue;
    const std::string& type = reader->layer().type();
    if ((type != "conv" && type != "pool") || reader->layer().pad() != 0) {
      return InvalidArgument(
          "layer \"%s\": reads the padding layer \"%s\"; expected that of a conv or pool layer without pad",
          reader->layer().name().c_str(), padding->second.layer().name().c_str());
    }
    reader->mutable_layer()->set_pad(padding->second.layer().pad());
    bottom = padding->second.bottom(0);
  }
  return OkStatus();
}

/// Notes a padding layer by its top.
Status TakePadding(const V1& layer, std::map<std::string, V1>* paddings) {
  if (layer.bottom_size() != 1 || layer.top_size() != 1) {
    return InvalidArgument("layer \"%s\": a padding layer has %d bottoms and %d tops; expected one of each",
                           layer.layer().name().c_str(), layer.bottom_size(), layer.top_size());
  }
  (*paddings)[layer.top(0)] = layer;
  return OkStatus();
}

Status FoldPaddings(caffe::NetParameter* net, const PlaceOfOrigin& place_of, std::vector<NetUpgrade::Origin>* origins) {
  std::map<std::string, V1> paddings;  // by top
  caffe::NetParameter kept;
  std::vector<NetUpgrade::Origin> kept_origins;
  for (int i = 0; i < net->layers_size(); ++i) {
    V1& layer = *net->mutable_layers(i);
    if (IsPadding(layer)) {
      HP_RETURN_IF_ERROR(AtOrigin(TakePadding(layer, &paddings), (*origins)[i], place_of));
      continue;
    }
    HP_RETURN_IF_ERROR(AtOrigin(FoldPadding(paddings, &layer), (*origins)[i], place_of));
    for (const std::string& top : layer.top()) paddings.erase(top);  // an in-place layer, or the name anew
    kept.add_layers()->Swap(&layer);
    kept_origins.push_back((*origins)[i]);
  }
  net->mutable_layers()->Swap(kept.mutable_layers());
  origins->swap(kept_origins);
  return OkStatus();
}

}  // namespace

bool HasV0Layers(const caffe::NetParameter& net) {
  for (const V1& layer : net.layers()) {
    if (layer.has_layer()) return true;
  }
  return false;
}

Status UpgradeV0(caffe::NetParameter* net, const PlaceOfOrigin& place_of, std::vector<NetUpgrade::Origin>* origins) {
  for (int i = 0; i < net->layers_size(); ++i) {
    HP_RETURN_IF_ERROR(AtOrigin(CheckForm(net->layers(i)), (*origins)[i], place_of));
  }
  HP_RETURN_IF_ERROR(FoldPaddings(net, place_of, origins));
  for (int i = 0; i < net->layers_size(); ++i) {
    V1& layer = *net->mutable_layers(i);
    V0 old;
    old.Swap(layer.mutable_layer());
    layer.clear_layer();
    HP_RETURN_IF_ERROR(AtOrigin(UpgradeLayer(&old, &layer), (*origins)[i], place_of));
  }
  return OkStatus();
}

}  // namespace hp
