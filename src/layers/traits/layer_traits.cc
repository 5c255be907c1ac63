#include "layers/traits/layer_traits.h"

#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/layer_types.h"
#include "proto/caffe.pb.h"

#include "glog/logging.h"

namespace hp {

StatusOr<LayerTraits> LayerTraits::Create(const caffe::LayerParameter& param, const LayerTypes& types) {
  if (param.name().empty()) return InvalidArgument("a layer of type \"%s\" has no name", param.type().c_str());
  const LayerType* type = types.Find(param.type());
  if (type == nullptr) return LayerError(param, "%s", types.DescribeUnsupported(param.type()).c_str());
  HP_RETURN_IF_ERROR(CheckCommonFields(*type, param));
  if (type->check != nullptr) HP_RETURN_IF_ERROR(type->check(param));
  HP_RETURN_IF_ERROR(CheckInPlace(*type, param));
  const LayerTraits traits(*type, param);
  if (param.param_size() > traits.blobs()) {
    return LayerError(param, "has %d param entries; expected at most %d, one for each learnable blob",
                      param.param_size(), traits.blobs());
  }
  return traits;
}

const std::string& LayerTraits::name() const { return param_->name(); }
const std::string& LayerTraits::type() const { return param_->type(); }

StatusOr<std::vector<Shape>> LayerTraits::OutputShapes(const std::vector<Shape>& in) const {
  HP_ASSIGN_OR_RETURN(std::vector<Shape> out, type_->output_shapes(*param_, in));
  for (const Shape& shape : out) HP_RETURN_IF_ERROR(CheckSize(*param_, "top", shape));
  if (type_->params == nullptr) return out;
  for (const ParamSpec& spec : type_->params(*param_, in)) {
    HP_RETURN_IF_ERROR(CheckSize(*param_, "parameter", spec.shape));
  }
  return out;
}

int LayerTraits::blobs() const { return type_->blobs != nullptr ? type_->blobs(*param_) : type_->most_blobs; }

std::vector<ParamSpec> LayerTraits::Params(const std::vector<Shape>& in) const {
  std::vector<ParamSpec> specs;
  if (type_->params != nullptr) specs = type_->params(*param_, in);
  // A row that counts its blobs wrongly would have a layer learn that does not, or the other way round.
  CHECK_EQ(specs.size(), static_cast<size_t>(blobs())) << "blobs of layer " << name() << " of type " << type();
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    specs[i].name = name() + "." + std::to_string(i);
    if (specs[i].average_keeps) {
      specs[i].lr_mult = learns(i) ? 1 : 0;
      specs[i].decay_mult = 0;
      continue;
    }
    if (i >= param_->param_size()) continue;
    specs[i].lr_mult = param_->param(i).lr_mult();
    specs[i].decay_mult = param_->param(i).decay_mult();
  }
  return specs;
}

bool LayerTraits::learns() const {
  for (int i = 0; i < blobs(); ++i) {
    if (learns(i)) return true;
  }
  return false;
}

bool LayerTraits::learns(int blob) const {
  if (type_->batch_statistics != nullptr) return uses_batch_statistics();
  return blob >= param_->param_size() || param_->param(blob).lr_mult() != 0;
}

bool LayerTraits::uses_batch_statistics() const {
  return type_->batch_statistics != nullptr && type_->batch_statistics(*param_);
}

std::optional<float> LayerTraits::average_keeps() const {
  if (type_->average_keeps == nullptr) return std::nullopt;
  return type_->average_keeps(*param_);
}

bool LayerTraits::has_small_blobs() const { return type_->small_blobs; }
bool LayerTraits::deconvolves() const { return type_->deconvolves; }
bool LayerTraits::looks_up() const { return type_->looks_up; }

SourceKind LayerTraits::source() const { return type_->source; }

int64_t LayerTraits::batch_size() const { return type_->batch_size != nullptr ? type_->batch_size(*param_) : -1; }

ChannelUse LayerTraits::channel_use() const {
  const bool whole = type_->split_outputs != nullptr && type_->split_outputs(*param_) == 0;
  return whole ? ChannelUse::kWhole : type_->channel_use;
}

std::optional<ClassSplit> LayerTraits::class_split() const {
  return type_->class_split != nullptr ? type_->class_split(*param_) : std::nullopt;
}

float LayerTraits::sample_rate() const { return type_->sample_rate != nullptr ? type_->sample_rate(*param_) : 1; }

bool LayerTraits::reads_sample() const { return type_->reads_sample != nullptr && type_->reads_sample(*param_); }

bool LayerTraits::allows_in_place() const { return type_->in_place; }
bool LayerTraits::gradient_reads_input() const {
  return type_->gradient_reads_input != nullptr && type_->gradient_reads_input(*param_);
}
bool LayerTraits::passes_gradient() const {
  return type_->passes_gradient != nullptr && type_->passes_gradient(*param_);
}
bool LayerTraits::is_loss() const { return type_->loss; }
bool LayerTraits::has_gradient() const { return type_->has_gradient; }
bool LayerTraits::propagates() const { return type_->propagates; }
bool LayerTraits::discards() const { return type_->discards; }
bool LayerTraits::is_parameter() const { return type_->parameter; }
bool LayerTraits::is_view() const { return type_->view; }
size_t LayerTraits::label_bottom() const { return type_->label_bottom; }
bool LayerTraits::may_read_labels() const { return type_->label_targets; }
bool LayerTraits::has_fixed_targets() const { return type_->fixed_targets; }
bool LayerTraits::pairs_elements() const { return type_->pairs; }
bool LayerTraits::reads_labels() const { return type_->reads_labels; }

std::vector<int64_t> LayerTraits::Elements(const Shape& in, int top) const {
  return type_->elements != nullptr ? type_->elements(*param_, in, top) : std::vector<int64_t>();
}

bool LayerTraits::needs_batch_labels() const {
  return type_->needs_batch_labels != nullptr && type_->needs_batch_labels(*param_);
}

int64_t LayerTraits::classes(const Shape& scores) const {
  return type_->classes != nullptr ? type_->classes(*param_, scores) : scores.dim(1);
}

std::optional<int> LayerTraits::ignore_label() const {
  return type_->ignore_label != nullptr ? type_->ignore_label(*param_) : std::nullopt;
}

bool LayerTraits::is_statistic() const {
  return type_->statistic || (type_->sums_batch != nullptr && type_->sums_batch(*param_));
}

float LayerTraits::loss_weight(int top) const {
  if (type_->loss && param_->loss_weight_size() == 0) return top == 0 ? 1 : 0;
  return top < param_->loss_weight_size() ? param_->loss_weight(top) : 0;
}

}  // namespace hp
