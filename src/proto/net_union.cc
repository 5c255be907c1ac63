// The layers of training are the first entries; then each test marks those that it has, and inserts those that it has
// for itself.
#include "proto/net_union.h"

#include "proto/net_filter.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <set>
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

/// A layer of the union, and the nets that have it, by Phase::index.
struct UnitedLayer {
  const LayerParameter* layer;
  std::set<int> nets;
};

class NetUnion {
 public:
  explicit NetUnion(const NetParameter& train) {
    for (const LayerParameter& layer : train.layer()) entries_.push_back({&layer, {0}});
  }

  /// What the union lacks goes in front of the next layer that it has.
  Status Add(int net, const NetParameter& test) {
    size_t next = 0;  // the first entry behind those of the test so far
    std::vector<UnitedLayer> own;
    for (const LayerParameter& layer : test.layer()) {
      const auto same = std::find_if(entries_.begin() + static_cast<int64_t>(next), entries_.end(),
                                     [&](const UnitedLayer& entry) { return IsSame(*entry.layer, layer); });
      if (same == entries_.end()) {
        HP_RETURN_IF_ERROR(CheckOrder(layer, next));
        own.push_back({&layer, {net}});
        continue;
      }
      same->nets.insert(net);
      next = static_cast<size_t>(same - entries_.begin()) + own.size() + 1;
      entries_.insert(same, own.begin(), own.end());
      own.clear();
    }
    entries_.insert(entries_.end(), own.begin(), own.end());
    return OkStatus();
  }

  /// @param nets how many there are.
  void Write(int nets, NetParameter* net) const {
    for (const UnitedLayer& entry : entries_) {
      LayerParameter* const layer = net->add_layer();
      *layer = *entry.layer;
      layer->clear_include();
      layer->clear_exclude();
      if (std::ssize(entry.nets) < nets) Include(entry.nets, nets, layer);
    }
  }

 private:
  static bool IsSame(const LayerParameter& a, const LayerParameter& b) {
    return a.name() == b.name() && ComputeAlike(a, b);
  }

  /// Tests may have their own layers in any order, but not those of training.
  Status CheckOrder(const LayerParameter& layer, size_t next) const {
    for (size_t i = 0; i < next; ++i) {
      if (!entries_[i].nets.contains(0) || !IsSame(*entries_[i].layer, layer)) continue;
      return InvalidArgument(
          "layer \"%s\": stands before \"%s\" in the net of training, and behind it in that of a test; expected one "
          "order",
          layer.name().c_str(), entries_[next - 1].layer->name().c_str());
    }
    return OkStatus();
  }

  /// The first test has no stage of its own: it is what is in TEST and in none of the others' stages.
  static void Include(const std::set<int>& nets, int all, LayerParameter* layer) {
    if (nets.contains(0)) layer->add_include()->set_phase(caffe::TRAIN);
    if (nets.contains(1)) {
      caffe::NetStateRule* const rule = layer->add_include();
      rule->set_phase(caffe::TEST);
      for (int net = 2; net < all; ++net) {
        if (!nets.contains(net)) rule->add_not_stage(StageOfTest(net - 1));
      }
      return;
    }
    for (const int net : nets) {
      if (net == 0) continue;
      caffe::NetStateRule* const rule = layer->add_include();
      rule->set_phase(caffe::TEST);
      rule->add_stage(StageOfTest(net - 1));
    }
  }

  std::vector<UnitedLayer> entries_;
};

}  // namespace

bool ComputeAlike(const LayerParameter& a, const LayerParameter& b) {
  return google::protobuf::util::MessageDifferencer::Equals(Essence(a), Essence(b));
}

StatusOr<NetParameter> UnionOf(const NetParameter& train, const std::vector<NetParameter>& tests) {
  NetUnion all(train);
  for (int test = 0; test < static_cast<int>(tests.size()); ++test) {
    HP_RETURN_IF_ERROR(all.Add(Phase::OfTest(test).index(), tests[test]));
  }
  NetParameter net = train;
  net.clear_layer();
  net.clear_state();
  all.Write(1 + static_cast<int>(tests.size()), &net);
  return net;
}

}  // namespace hp
