#include "input/inputs.h"

namespace hp {

Status Inputs::Prepare(const Schedule& schedule, int replica, uint64_t seed, Input::ReadAhead ahead, Device* device,
                       const Input::Callbacks& callbacks) {
  schedule_ = &schedule;
  if (train) HP_RETURN_IF_ERROR(train->Prepare(schedule, replica, caffe::TRAIN, seed, ahead, device, callbacks));
  ahead.batches = 1;
  for (int i = 0; i < static_cast<int>(tests.size()); ++i) {
    HP_RETURN_IF_ERROR(tests[i]->Prepare(schedule, replica, Phase::OfTest(i), seed, ahead, device, callbacks));
  }
  return OkStatus();
}

void Inputs::StartTests(int64_t clock) {
  for (const auto& test : tests) test->Start(clock);
}

void Inputs::Stop() {
  if (train) train->Stop();
  for (const auto& test : tests) test->Stop();
}

StatusOr<std::unique_ptr<Input>> OpenTraining(const caffe::NetParameter& net, const LayerTypes& types,
                                              const InputOptions& options) {
  return Input::Open(net, caffe::TRAIN, types, options);
}

StatusOr<std::vector<std::unique_ptr<Input>>> OpenTests(const caffe::NetParameter& net, int tests,
                                                        const LayerTypes& types, const InputOptions& options) {
  std::vector<std::unique_ptr<Input>> inputs;
  for (int i = 0; i < tests; ++i) {
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Input> input, Input::Open(net, Phase::OfTest(i), types, options));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace hp
