// Embed: rows of a table of weights, which the bottom's numbers name.
#include "base/format.h"
#include "layers/traits/built_in_types.h"
#include "layers/traits/common_checks.h"
#include "layers/traits/errors.h"
#include "layers/traits/filler_check.h"
#include "proto/caffe.pb.h"

namespace hp {
namespace {

/// Whole numbers that a float32, as which they stand in the bottom, tells apart.
constexpr uint32_t kMostRows = 1 << 24;

Status CheckEmbed(const caffe::LayerParameter& param) {
  const caffe::EmbedParameter& embed = param.embed_param();
  if (embed.num_output() < 1) {
    return LayerError(param, "embed_param: num_output is missing or 0; expected at least 1");
  }
  HP_RETURN_IF_ERROR(CheckDim(param, "embed_param { num_output", embed.num_output()));
  if (embed.input_dim() < 1) {
    return LayerError(param,
                      "embed_param: input_dim is missing or 0; expected at least 1, one more than the largest number "
                      "of the bottom");
  }
  if (embed.input_dim() > kMostRows) {
    return LayerError(param, "embed_param { input_dim: %u }: expected at most %u, the whole numbers that a float has",
                      embed.input_dim(), kMostRows);
  }
  return OkStatus();
}

int EmbedBlobs(const caffe::LayerParameter& param) { return param.embed_param().bias_term() ? 2 : 1; }

std::vector<ParamSpec> EmbedParams(const caffe::LayerParameter& param, const std::vector<Shape>&) {
  const caffe::EmbedParameter& embed = param.embed_param();
  std::vector<ParamSpec> specs(static_cast<size_t>(EmbedBlobs(param)));
  specs[0].shape = {embed.input_dim(), embed.num_output()};
  if (embed.has_weight_filler()) specs[0].filler = &embed.weight_filler();
  if (specs.size() == 1) return specs;
  specs[1].shape = {embed.num_output()};
  if (embed.has_bias_filler()) specs[1].filler = &embed.bias_filler();
  return specs;
}

StatusOr<std::vector<Shape>> EmbedShapes(const caffe::LayerParameter& param, const std::vector<Shape>& in) {
  if (in[0].rank() < 1) {
    return LayerError(param, "bottom shape [%s] does not fit; expected [rows, ...]", in[0].ToString().c_str());
  }
  for (const ParamSpec& spec : EmbedParams(param, in)) {
    if (spec.filler == nullptr) continue;
    const std::string where = Format("layer \"%s\": embed_param: %s", param.name().c_str(),
                                     spec.shape.rank() > 1 ? "weight_filler" : "bias_filler");
    HP_RETURN_IF_ERROR(CheckFiller(*spec.filler, spec.shape, where));
  }
  std::vector<int64_t> out = in[0].dims();
  out.push_back(param.embed_param().num_output());
  return std::vector<Shape>{Shape(out)};
}

}  // namespace

LayerType EmbedType() {
  return {.name = "Embed",
          .fields = {"embed_param"},
          .propagates = false,
          .small_blobs = true,
          .looks_up = true,
          .check = CheckEmbed,
          .output_shapes = EmbedShapes,
          .most_blobs = 2,
          .blobs = EmbedBlobs,
          .params = EmbedParams};
}

}  // namespace hp
