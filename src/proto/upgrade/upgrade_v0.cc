// A V0 layer has the fields of all types in one message. Which typed parameter a field belongs to follows from the
// layer's type; a field that its type has no use for is a fault, as in Caffe.
#include "proto/upgrade/upgrade_v0.h"

#include <map>
#include <string>
#include <utility>

namespace hp {
namespace {

using V0 = caffe::V0LayerParameter;
using V1 = caffe::V1LayerParameter;

/// The types of 2013, and what they are called in 2014.
const std::map<std::string, V1::LayerType>& Types() {
  static const std::map<std::string, V1::LayerType> kTypes = {
      {"accuracy", V1::ACCURACY},
      {"bnll", V1::BNLL},
      {"concat", V1::CONCAT},
      {"conv", V1::CONVOLUTION},
      {"data", V1::DATA},
      {"dropout", V1::DROPOUT},
      {"euclidean_loss", V1::EUCLIDEAN_LOSS},
      {"flatten", V1::FLATTEN},
      {"hdf5_data", V1::HDF5_DATA},
      {"hdf5_output", V1::HDF5_OUTPUT},
      {"im2col", V1::IM2COL},
      {"images", V1::IMAGE_DATA},
      {"infogain_loss", V1::INFOGAIN_LOSS},
      {"innerproduct", V1::INNER_PRODUCT},
      {"lrn", V1::LRN},
      {"multinomial_logistic_loss", V1::MULTINOMIAL_LOGISTIC_LOSS},
      {"pool", V1::POOLING},
      {"relu", V1::RELU},
      {"sigmoid", V1::SIGMOID},
      {"softmax", V1::SOFTMAX},
      {"softmax_loss", V1::SOFTMAX_LOSS},
      {"split", V1::SPLIT},
      {"tanh", V1::TANH},
      {"window_data", V1::WINDOW_DATA},
  };
  return kTypes;
}

/// Moves the fields of one V0 layer. What is left at the end has no meaning for its type.
class LayerUpgrade {
 public:
  LayerUpgrade(const V0& from, V1* to) : from_(from), to_(to) {}

  Status Run() {
    const auto type = Types().find(from_.type());
    if (type == Types().end()) {
      return InvalidArgument(
          "layer \"%s\": type \"%s\" is no type of the form of 2013; expected conv, pool or the like",
          from_.name().c_str(), from_.type().c_str());
    }
    to_->set_type(type->second);
    to_->set_name(from_.name());
    *to_->mutable_blobs() = from_.blobs();
    *to_->mutable_blobs_lr() = from_.blobs_lr();
    *to_->mutable_weight_decay() = from_.weight_decay();
    rest_ = from_;
    rest_.clear_name();
    rest_.clear_type();
    rest_.clear_blobs();
    rest_.clear_blobs_lr();
    rest_.clear_weight_decay();
    MoveTyped(type->second);
    return CheckRest();
  }

 private:
  void MoveTyped(V1::LayerType type) {
    switch (type) {
      case V1::CONVOLUTION:
        return MoveConvolution();
      case V1::INNER_PRODUCT:
        return MoveProduct();
      case V1::POOLING:
        return MovePooling();
      case V1::LRN:
        return MoveLrn();
      case V1::DROPOUT:
        return Take(rest_.has_dropout_ratio(), [&] {
          to_->mutable_dropout_param()->set_dropout_ratio(rest_.dropout_ratio());
          rest_.clear_dropout_ratio();
        });
      case V1::CONCAT:
        return Take(rest_.has_concat_dim(), [&] {
          to_->mutable_concat_param()->set_concat_dim(rest_.concat_dim());
          rest_.clear_concat_dim();
        });
      case V1::INFOGAIN_LOSS:
        return Take(rest_.has_source(), [&] {
          to_->mutable_infogain_loss_param()->set_source(rest_.source());
          rest_.clear_source();
        });
      case V1::HDF5_OUTPUT:
        return Take(rest_.has_hdf5_output_param(), [&] {
          *to_->mutable_hdf5_output_param() = rest_.hdf5_output_param();
          rest_.clear_hdf5_output_param();
        });
      case V1::DATA:
        MoveTransform();
        MoveRandSkip(to_->mutable_data_param());
        return MoveSource(to_->mutable_data_param());
      case V1::HDF5_DATA:
        return MoveSource(to_->mutable_hdf5_data_param());
      case V1::IMAGE_DATA:
        return MoveImages();
      case V1::WINDOW_DATA:
        return MoveWindows();
      default:
        return;
    }
  }

  template <typename Move>
  void Take(bool has, const Move& move) {
    if (has) move();
  }

  template <typename Parameter>
  void MoveWeights(Parameter* to) {
    if (rest_.has_num_output()) to->set_num_output(rest_.num_output());
    if (rest_.has_biasterm()) to->set_bias_term(rest_.biasterm());
    if (rest_.has_weight_filler()) *to->mutable_weight_filler() = rest_.weight_filler();
    if (rest_.has_bias_filler()) *to->mutable_bias_filler() = rest_.bias_filler();
    rest_.clear_num_output();
    rest_.clear_biasterm();
    rest_.clear_weight_filler();
    rest_.clear_bias_filler();
  }

  void MoveProduct() { MoveWeights(to_->mutable_inner_product_param()); }

  void MoveConvolution() {
    caffe::ConvolutionParameter* const to = to_->mutable_convolution_param();
    MoveWeights(to);
    if (rest_.has_pad()) to->add_pad(rest_.pad());
    if (rest_.has_kernelsize()) to->add_kernel_size(rest_.kernelsize());
    if (rest_.has_stride()) to->add_stride(rest_.stride());
    if (rest_.has_group()) to->set_group(rest_.group());
    rest_.clear_pad();
    rest_.clear_kernelsize();
    rest_.clear_stride();
    rest_.clear_group();
  }

  void MovePooling() {
    caffe::PoolingParameter* const to = to_->mutable_pooling_param();
    if (rest_.has_pool()) to->set_pool(static_cast<caffe::PoolingParameter::PoolMethod>(rest_.pool()));
    if (rest_.has_pad()) to->set_pad(rest_.pad());
    if (rest_.has_kernelsize()) to->set_kernel_size(rest_.kernelsize());
    if (rest_.has_stride()) to->set_stride(rest_.stride());
    rest_.clear_pool();
    rest_.clear_pad();
    rest_.clear_kernelsize();
    rest_.clear_stride();
  }

  void MoveLrn() {
    caffe::LRNParameter* const to = to_->mutable_lrn_param();
    if (rest_.has_local_size()) to->set_local_size(rest_.local_size());
    if (rest_.has_alpha()) to->set_alpha(rest_.alpha());
    if (rest_.has_beta()) to->set_beta(rest_.beta());
    if (rest_.has_k()) to->set_k(rest_.k());
    rest_.clear_local_size();
    rest_.clear_alpha();
    rest_.clear_beta();
    rest_.clear_k();
  }

  template <typename Parameter>
  void MoveSource(Parameter* to) {
    if (rest_.has_source()) to->set_source(rest_.source());
    if (rest_.has_batchsize()) to->set_batch_size(rest_.batchsize());
    rest_.clear_source();
    rest_.clear_batchsize();
  }

  void MoveTransform() {
    if (rest_.has_scale()) to_->mutable_transform_param()->set_scale(rest_.scale());
    if (rest_.has_meanfile()) to_->mutable_transform_param()->set_mean_file(rest_.meanfile());
    if (rest_.has_cropsize()) to_->mutable_transform_param()->set_crop_size(rest_.cropsize());
    if (rest_.has_mirror()) to_->mutable_transform_param()->set_mirror(rest_.mirror());
    rest_.clear_scale();
    rest_.clear_meanfile();
    rest_.clear_cropsize();
    rest_.clear_mirror();
  }

  template <typename Parameter>
  void MoveRandSkip(Parameter* to) {
    if (rest_.has_rand_skip()) to->set_rand_skip(rest_.rand_skip());
    rest_.clear_rand_skip();
  }

  void MoveImages() {
    caffe::ImageDataParameter* const to = to_->mutable_image_data_param();
    MoveTransform();
    MoveSource(to);
    MoveRandSkip(to);
    if (rest_.has_shuffle_images()) to->set_shuffle(rest_.shuffle_images());
    if (rest_.has_new_height()) to->set_new_height(rest_.new_height());
    if (rest_.has_new_width()) to->set_new_width(rest_.new_width());
    rest_.clear_shuffle_images();
    rest_.clear_new_height();
    rest_.clear_new_width();
  }

  void MoveWindows() {
    caffe::WindowDataParameter* const to = to_->mutable_window_data_param();
    MoveTransform();
    MoveSource(to);
    if (rest_.has_det_fg_threshold()) to->set_fg_threshold(rest_.det_fg_threshold());
    if (rest_.has_det_bg_threshold()) to->set_bg_threshold(rest_.det_bg_threshold());
    if (rest_.has_det_fg_fraction()) to->set_fg_fraction(rest_.det_fg_fraction());
    if (rest_.has_det_context_pad()) to->set_context_pad(rest_.det_context_pad());
    if (rest_.has_det_crop_mode()) to->set_crop_mode(rest_.det_crop_mode());
    rest_.clear_det_fg_threshold();
    rest_.clear_det_bg_threshold();
    rest_.clear_det_fg_fraction();
    rest_.clear_det_context_pad();
    rest_.clear_det_crop_mode();
  }

  Status CheckRest() const {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    rest_.GetReflection()->ListFields(rest_, &fields);
    if (fields.empty()) return OkStatus();
    return InvalidArgument(
        "layer \"%s\": field \"%s\" has no meaning for a layer of type \"%s\"; expected it not there",
        from_.name().c_str(), fields[0]->name().c_str(), from_.type().c_str());
  }

  const V0& from_;
  V1* const to_;
  V0 rest_;  // what has found no place yet
};

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

Status FoldPaddings(caffe::NetParameter* net, std::vector<NetUpgrade::Origin>* origins) {
  std::map<std::string, V1> paddings;  // by top
  caffe::NetParameter kept;
  std::vector<NetUpgrade::Origin> kept_origins;
  for (int i = 0; i < net->layers_size(); ++i) {
    V1& layer = *net->mutable_layers(i);
    if (IsPadding(layer)) {
      if (layer.bottom_size() != 1 || layer.top_size() != 1) {
        return InvalidArgument("layer \"%s\": a padding layer has %d bottoms and %d tops; expected one of each",
                               layer.layer().name().c_str(), layer.bottom_size(), layer.top_size());
      }
      paddings[layer.top(0)] = layer;
      continue;
    }
    HP_RETURN_IF_ERROR(FoldPadding(paddings, &layer));
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

Status UpgradeV0(caffe::NetParameter* net, std::vector<NetUpgrade::Origin>* origins) {
  for (const V1& layer : net->layers()) {
    if (layer.has_layer()) continue;
    return InvalidArgument("layer \"%s\": of the form of 2014 in a net of the form of 2013; expected one of them",
                           layer.name().c_str());
  }
  HP_RETURN_IF_ERROR(FoldPaddings(net, origins));
  for (V1& layer : *net->mutable_layers()) {
    const V0 old = layer.layer();
    layer.clear_layer();
    HP_RETURN_IF_ERROR(LayerUpgrade(old, &layer).Run());
  }
  return OkStatus();
}

}  // namespace hp
