#include "proto/test_nets.h"

#include "proto/net_filter.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hp {
namespace {

using caffe::LayerParameter;
using caffe::NetParameter;

LayerParameter Essence(const LayerParameter& layer) {
  LayerParameter essence = layer;
  essence.clear_include();
  essence.clear_exclude();
  essence.clear_param();
  std::vector<const google::protobuf::FieldDescriptor*> fields, inner;
  essence.GetReflection()->ListFields(essence, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != field->CPPTYPE_MESSAGE || field->is_repeated()) continue;
    google::protobuf::Message* const typed = essence.GetReflection()->MutableMessage(&essence, field);
    inner.clear();
    typed->GetReflection()->ListFields(*typed, &inner);
    for (const auto* part : inner) {
      if (part->message_type() == caffe::FillerParameter::descriptor()) typed->GetReflection()->ClearField(typed, part);
    }
  }
  return essence;
}

Status Differs(int test, const LayerParameter& layer) {
  return InvalidArgument(
      "layer \"%s\": differs between test 0 and test %d of the solver; expected tests of one net whose data differ",
      layer.name().c_str(), test);
}

// The first test no longer reads it where `stage` is on.
void KeepFrom(const std::string& stage, LayerParameter* layer) {
  if (layer->include_size() == 0) layer->add_include();
  for (caffe::NetStateRule& rule : *layer->mutable_include()) rule.add_not_stage(stage);
}

void AddSource(int test, const LayerParameter& of_first, const LayerParameter& source, NetParameter* net) {
  const std::string stage = StageOfTest(test);
  const caffe::NetState state = StateOf(*net, caffe::TEST);
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.name() == of_first.name() && LayerIsIn(layer, state)) KeepFrom(stage, &layer);
  }
  LayerParameter* const added = net->add_layer();
  *added = source;
  added->clear_include();
  added->clear_exclude();
  added->add_include()->set_phase(caffe::TEST);
  added->mutable_include(0)->add_stage(stage);
}

bool SameTops(const LayerParameter& a, const LayerParameter& b) {
  return std::equal(a.top().begin(), a.top().end(), b.top().begin(), b.top().end());
}

}  // namespace

bool ComputeAlike(const LayerParameter& a, const LayerParameter& b) {
  return google::protobuf::util::MessageDifferencer::Equals(Essence(a), Essence(b));
}

Status AddTests(const std::vector<NetParameter>& tests, NetParameter* net) {
  for (int test = 1; test < static_cast<int>(tests.size()); ++test) {
    const NetParameter &first = tests[0], &other = tests[test];
    for (int i = 0; i < std::max(first.layer_size(), other.layer_size()); ++i) {
      if (i >= first.layer_size() || i >= other.layer_size())
        return Differs(test, (i < first.layer_size() ? first : other).layer(i));
      const LayerParameter &a = first.layer(i), &b = other.layer(i);
      if (ComputeAlike(a, b)) continue;
      if (a.bottom_size() + b.bottom_size() > 0 || !SameTops(a, b)) return Differs(test, b);
      AddSource(test, a, b, net);
    }
  }
  return OkStatus();
}

}  // namespace hp
