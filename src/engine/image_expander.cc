#include "engine/image_expander.h"

#include "glog/logging.h"

namespace hp {

StatusOr<std::unique_ptr<ImageExpander>> ImageExpander::Create(const Inputs& inputs, Device* device, Backend* backend) {
  std::unique_ptr<ImageExpander> expander(new ImageExpander(device, backend));
  HP_RETURN_IF_ERROR(expander->Add(caffe::TRAIN, inputs.train.get()));
  for (size_t i = 0; i < inputs.tests.size(); ++i) {
    HP_RETURN_IF_ERROR(expander->Add(Phase::OfTest(static_cast<int>(i)), inputs.tests[i].get()));
  }
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

void ImageExpander::Expand(Phase phase, int64_t rows, const std::byte* raw, float* images) const {
  const auto rule = rules_.find(phase);
  CHECK(rule != rules_.end());
  backend_->FloatImages(rule->second, rows, raw, images);
}

}  // namespace hp
