#include "engine/image_expander.h"

#include "base/format.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

/// Of each byte of whole images a library is taken to hold this many itself: coefficients of 16 bits, and channels
/// before their colors are converted.
constexpr size_t kHeldByLibrary = 3;

std::vector<const Input*> AllOf(const Inputs& inputs) {
  std::vector<const Input*> all;
  if (inputs.train) all.push_back(inputs.train.get());
  for (const auto& test : inputs.tests) all.push_back(test.get());
  return all;
}

/// Of the largest micro-batch of any phase.
int64_t MostRows(const NodeModel& model) {
  int64_t rows = 0;
  for (const Phase phase : model.phases()) {
    for (const NodeNet* net : model.AllNets(phase)) rows = std::max(rows, net->rows());
  }
  return rows;
}

int64_t MostWholeBytes(const Inputs& inputs) {
  int64_t bytes = 0;
  for (const Input* input : AllOf(inputs)) bytes = std::max(bytes, input->whole_bytes());
  return bytes;
}

}  // namespace

size_t ImageExpander::DecoderBytes(const NodeModel& model, const Inputs& inputs) {
  return static_cast<size_t>(MostRows(model)) * WholeImageStride(MostWholeBytes(inputs)) * (1 + kHeldByLibrary);
}

StatusOr<std::unique_ptr<ImageExpander>> ImageExpander::Create(const NodeModel& model, const Inputs& inputs,
                                                               Device* device, Backend* backend) {
  std::unique_ptr<ImageExpander> expander(new ImageExpander(inputs, device, backend));
  HP_RETURN_IF_ERROR(expander->Add(caffe::TRAIN, inputs.train.get()));
  for (size_t i = 0; i < inputs.tests.size(); ++i) {
    HP_RETURN_IF_ERROR(expander->Add(Phase::OfTest(static_cast<int>(i)), inputs.tests[i].get()));
  }
  const std::vector<const Input*> all = AllOf(inputs);
  if (std::none_of(all.begin(), all.end(), [](const Input* input) { return input->encoded(); })) return expander;
  auto decoder = backend->ImageDecoder(MostRows(model), MostWholeBytes(inputs));
  if (!decoder.ok()) {
    return decoder.status().Prepend(Format("node \"%s\", jpeg_decoder: GPU", model.node().name.c_str()));
  }
  expander->decoder_ = *std::move(decoder);
  return expander;
}

Status ImageExpander::Add(Phase phase, const Input* input) {
  if (input == nullptr || !input->rule()) return OkStatus();
  RawImageRule rule = *input->rule();
  const size_t bytes = rule.mean_values() * sizeof(float);
  HP_ASSIGN_OR_RETURN(Buffer mean, device_->Allocate(bytes));
  device_->Upload(Device::kCopyIn, mean.data(), rule.mean, bytes);
  device_->Order(Device::kCopyIn, Device::kCompute);
  rule.mean = mean.floats();
  means_.push_back(std::move(mean));
  rules_.emplace(phase, rule);
  return OkStatus();
}

void ImageExpander::Decode(MsgId id, Phase phase, int64_t rows, const void* on_host, std::byte* raw) const {
  const Input& input = inputs_.Of(id);
  if (!input.encoded()) return;
  decoder_->Decode(rules_.at(phase), rows, static_cast<const std::byte*>(on_host), raw,
                   [&](int64_t row) { return input.Describe(id, row); });
}

RawImages ImageExpander::ImagesOf(Phase phase, const std::byte* raw) const {
  const auto rule = rules_.find(phase);
  CHECK(rule != rules_.end());
  return {rule->second, raw};
}

void ImageExpander::Expand(const RawImages& raw, int64_t rows, float* images) const {
  backend_->FloatImages(raw.rule, rows, raw.data, images);
}

}  // namespace hp
