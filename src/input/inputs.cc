#include "input/inputs.h"

#include "proto/net_filter.h"

namespace hp {
namespace {

StatusOr<const caffe::LayerParameter*> DataLayerOf(const caffe::NetParameter& net, const caffe::NetState& state,
                                                   const LayerTypes& types, const char* purpose) {
  for (const caffe::LayerParameter& layer : net.layer()) {
    if (types.IsDataset(layer) && LayerIsIn(layer, state)) return &layer;
  }
  return InvalidArgument("net \"%s\" has no Data layer to %s", net.name().c_str(), purpose);
}

}  // namespace

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
  HP_ASSIGN_OR_RETURN(const auto* layer, DataLayerOf(net, StateOf(net, caffe::TRAIN), types, "train from"));
  return Input::Open(*layer, true, options);
}

StatusOr<std::vector<std::unique_ptr<Input>>> OpenTests(const caffe::NetParameter& net, int tests,
                                                        const LayerTypes& types, const InputOptions& options) {
  std::vector<std::unique_ptr<Input>> inputs;
  for (int i = 0; i < tests; ++i) {
    HP_ASSIGN_OR_RETURN(const auto* layer, DataLayerOf(net, StateOf(net, Phase::OfTest(i)), types, "test with"));
    HP_ASSIGN_OR_RETURN(std::unique_ptr<Input> input, Input::Open(*layer, false, options));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace hp
