#include "layers/traits/net_warnings.h"

#include "layers/traits/filler_check.h"
#include "layers/traits/layer_types.h"
#include "layers/traits/own_phase.h"
#include "proto/caffe.pb.h"
#include "proto/net_filter.h"

namespace hp {
namespace {

/// What is said of some layers.
struct Warning {
  std::string first;  // the name of one
  int others = 0;
  std::string text;
};

/// The warnings of one layer.
class LayerWarnings {
 public:
  LayerWarnings(const caffe::LayerParameter& layer, std::vector<Warning>* all) : layer_(layer), all_(all) {}

  void Say(const std::string& text) {
    for (Warning& said : *all_) {
      if (said.text != text) continue;
      ++said.others;
      return;
    }
    all_->push_back({layer_.name(), 0, text});
  }
  void Ignored(const std::string& what, const std::string& why) { Say(what + " is ignored, as in Caffe: " + why); }

  /// Four fields of data_param and image_data_param went to transform_param in 2014, and Caffe moves them in "layers",
  /// the form of that time, alone (src/caffe/util/upgrade_proto.cpp, UpgradeNetDataTransformation).
  template <typename OldParam>
  void CheckMoved(const OldParam& old, const std::string& name) {
    std::vector<std::string> fields;
    if (old.has_scale()) fields.push_back("scale");
    if (old.has_mean_file()) fields.push_back("mean_file");
    if (old.has_crop_size()) fields.push_back("crop_size");
    if (old.has_mirror()) fields.push_back("mirror");
    for (const std::string& field : fields) {
      Ignored(name + " { " + field + " }", "expected it in transform_param, where a \"layer\" has it");
    }
  }

  /// Typed parameters that belong to other types.
  void CheckForeign(const LayerType& type) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    layer_.GetReflection()->ListFields(layer_, &fields);
    for (const auto* field : fields) {
      if (field->name() == "param" || !field->name().ends_with("_param") || type.HasField(field->name())) continue;
      Ignored(field->name(), std::string("it does not belong to a layer of type ") + type.name);
    }
  }

  /// Fields of fillers, in its own typed parameters.
  void CheckFillers(const LayerType& type) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    layer_.GetReflection()->ListFields(layer_, &fields);
    for (const auto* field : fields) {
      if (field->is_repeated() || !field->name().ends_with("_param") || !type.HasField(field->name())) continue;
      CheckFillersOf(layer_.GetReflection()->GetMessage(layer_, field));
    }
  }

  void CheckPhase() {
    const std::optional<bool> train = OwnPhase(layer_);
    if (!train || !IncludedInPhase(layer_, *train ? caffe::TEST : caffe::TRAIN)) return;
    if (!OwnPhaseMatters(layer_)) {
      Ignored("phase", "it computes the same in both; include { phase: ... } says which it is in");
    } else if (layer_.type() == "BatchNorm" && *train) {
      Say("phase: TRAIN is ignored in tests, which take the averages; Caffe's take the statistics of their rows");
    }
  }

  /// @param type the layer's, whose own typed parameter `param` is.
  template <typename Param>
  void CheckBiasFiller(const Param& param, const std::string& type, const char* name) {
    if (layer_.type() != type || !param.has_bias_filler() || param.bias_term()) return;
    Ignored(std::string(name) + " { bias_filler }", "there is no bias without bias_term: true");
  }

  /// Fields of a Scale or Bias whose second bottom is what it would learn.
  void CheckSecondBottom() {
    if (layer_.bottom_size() < 2) return;
    const auto check = [this](const std::string& name, const auto& param) {
      const std::string why = "nothing is learned, the second bottom has the numbers";
      if (param.has_filler()) Ignored(name + " { filler }", why);
      if (param.has_num_axes()) Ignored(name + " { num_axes }", why);
    };
    if (layer_.type() == "Scale") check("scale_param", layer_.scale_param());
    if (layer_.type() == "Bias") check("bias_param", layer_.bias_param());
  }

  /// Says nothing to a program that writes it.
  void CheckOutput() {
    if (layer_.type() != "HDF5Output") return;
    Say("\"" + layer_.hdf5_output_param().file_name() +
        "\" is written by model_test, hptest and hpextract, which evaluate phase TEST; training writes nothing, "
        "where Caffe ends at the second batch");
  }

  void CheckOwnFields() {
    CheckBiasFiller(layer_.scale_param(), "Scale", "scale_param");
    CheckBiasFiller(layer_.embed_param(), "Embed", "embed_param");
    CheckBiasFiller(layer_.inner_product_param(), "InnerProduct", "inner_product_param");
    CheckBiasFiller(layer_.convolution_param(), "Convolution", "convolution_param");
    CheckBiasFiller(layer_.convolution_param(), "Deconvolution", "convolution_param");
    CheckSecondBottom();
    const caffe::LRNParameter& lrn = layer_.lrn_param();
    if (layer_.type() == "LRN" && lrn.has_k() && lrn.norm_region() == caffe::LRNParameter::WITHIN_CHANNEL) {
      Ignored("lrn_param { k }", "within a channel it is 1");
    }
    if (layer_.type() == "MVN" && layer_.mvn_param().has_eps() && !layer_.mvn_param().normalize_variance()) {
      Ignored("mvn_param { eps }", "nothing is divided without normalize_variance");
    }
    const caffe::EltwiseParameter& eltwise = layer_.eltwise_param();
    if (layer_.type() == "Eltwise" && eltwise.coeff_size() > 0 && eltwise.operation() == caffe::EltwiseParameter::MAX) {
      Ignored("eltwise_param { coeff }", "it is for operation SUM");
    }
    if (layer_.type() == "Eltwise" && !eltwise.stable_prod_grad()) {
      Say("eltwise_param { stable_prod_grad: false } is ignored: gradients are the same but at zeros, where Caffe's "
          "would be no numbers");
    }
    const caffe::TransformationParameter& transform = layer_.transform_param();
    if (layer_.type() == "ImageData" && (transform.has_force_color() || transform.has_force_gray())) {
      Ignored("transform_param { force_color, force_gray }", "image_data_param { is_color } says it of an ImageData");
    }
  }

 private:
  void CheckFillersOf(const google::protobuf::Message& param) {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    param.GetReflection()->ListFields(param, &fields);
    for (const auto* field : fields) {
      if (field->message_type() != caffe::FillerParameter::descriptor()) continue;
      const auto* const reflection = param.GetReflection();
      for (int i = 0; i < (field->is_repeated() ? reflection->FieldSize(param, field) : 1); ++i) {
        const google::protobuf::Message& message = field->is_repeated()
                                                       ? reflection->GetRepeatedMessage(param, field, i)
                                                       : reflection->GetMessage(param, field);
        CheckFiller(field->name(), static_cast<const caffe::FillerParameter&>(message));
      }
    }
  }
  void CheckFiller(const std::string& name, const caffe::FillerParameter& filler) {
    for (const std::string& said : FieldsWithoutMeaning(filler)) {
      Ignored(name + " { " + said + " }", "a filler of type \"" + filler.type() + "\" has none");
    }
  }

  const caffe::LayerParameter& layer_;
  std::vector<Warning>* const all_;
};

}  // namespace

std::vector<std::string> NetWarnings(const caffe::NetParameter& net, const LayerTypes& types, bool trains) {
  std::vector<Warning> all;
  for (const caffe::LayerParameter& layer : net.layer()) {
    const LayerType* const type = types.Find(layer.type());
    if (type == nullptr) continue;
    LayerWarnings warnings(layer, &all);
    warnings.CheckForeign(*type);
    warnings.CheckFillers(*type);
    warnings.CheckPhase();
    warnings.CheckOwnFields();
    if (trains) warnings.CheckOutput();
    if (layer.type() == "Data") warnings.CheckMoved(layer.data_param(), "data_param");
    if (layer.type() == "ImageData") warnings.CheckMoved(layer.image_data_param(), "image_data_param");
  }
  std::vector<std::string> lines;
  if (net.debug_info()) {
    lines.emplace_back("the net's debug_info: true has no effect; hpnode --trace shows where time goes");
  }
  for (const Warning& warning : all) {
    const std::string others = warning.others == 0 ? "" : " and " + std::to_string(warning.others) + " more";
    lines.push_back("layer \"" + warning.first + "\"" + others + ": " + warning.text);
  }
  return lines;
}

}  // namespace hp
