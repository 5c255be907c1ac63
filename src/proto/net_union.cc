// The layers of training are the first entries; then each test marks those that it has, and inserts those that it has
// for itself.
#include "proto/net_union.h"

#include "proto/net_filter.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
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
  essence.clear_place();
  if (layer.bottom_size() == 0) return essence;  // fillers are what it gives, as DummyData's
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
  UnitedLayer(const LayerParameter& of, int net) : layer(&of) { Join(net, of); }
  void Join(int net, const LayerParameter& of) {
    nets.insert(net);
    if (of.place_size() > 0) places[net] = of.place(0);
  }

  const LayerParameter* layer;
  std::set<int> nets;
  std::map<int, std::string> places;  // by net
};

class NetUnion {
 public:
  explicit NetUnion(const NetParameter& train) {
    for (const LayerParameter& layer : train.layer()) entries_.emplace_back(layer, 0);
  }

  /// What the union lacks goes behind a layer of its name where the test's order allows it, so that a table that
  /// places it by name and range places both, else in front of the next layer that both have.
  void Add(int net, const NetParameter& test) {
    const std::vector<Entry> trained = FindTrained(test);
    Entry next = entries_.begin();  // the first entry behind those of the test so far
    std::list<UnitedLayer> own;     // of the test, without a place
    for (int i = 0; i < test.layer_size(); ++i) {
      const LayerParameter& layer = test.layer(i);
      const Entry bound = *std::find_if(trained.begin() + i, trained.end() - 1,
                                        [this](const Entry& entry) { return entry != entries_.end(); });
      Entry same = trained[i];
      if (same == entries_.end()) {  // another test may have it
        same = std::find_if(next, bound, [&](const UnitedLayer& entry) {
          return !entry.nets.contains(0) && IsSame(*entry.layer, layer);
        });
      }
      if (same != bound || trained[i] != entries_.end()) {
        entries_.splice(same, own);
        same->Join(net, layer);
        next = std::next(same);
        continue;
      }
      own.emplace_back(layer, net);
      const Entry namesake =
          std::find_if(next, bound, [&](const UnitedLayer& entry) { return entry.layer->name() == layer.name(); });
      if (namesake == bound) continue;
      next = std::next(namesake);
      entries_.splice(next, own);
    }
    entries_.splice(entries_.end(), own);
  }

  /// @param nets how many there are.
  void Write(int nets, NetParameter* net) const {
    for (const UnitedLayer& entry : entries_) {
      LayerParameter* const layer = net->add_layer();
      *layer = *entry.layer;
      layer->clear_include();
      layer->clear_exclude();
      layer->clear_place();
      for (int i = 0; i < nets && !entry.places.empty(); ++i) {
        const auto place = entry.places.find(i);
        layer->add_place(place == entry.places.end() ? entry.places.begin()->second : place->second);
      }
      if (std::ssize(entry.nets) < nets) Include(entry.nets, nets, layer);
    }
  }

 private:
  using Entry = std::list<UnitedLayer>::iterator;

  static bool IsSame(const LayerParameter& a, const LayerParameter& b) {
    return a.name() == b.name() && ComputeAlike(a, b);
  }

  /// The entry of training that each layer of a test is; the end for those that are none, and once more behind the
  /// last. One that stands in another order than in training is the test's own.
  std::vector<Entry> FindTrained(const NetParameter& test) {
    std::vector<Entry> trained;
    Entry last = entries_.end();
    for (const LayerParameter& layer : test.layer()) {
      const auto is_it = [&layer](const UnitedLayer& entry) {
        return entry.nets.contains(0) && IsSame(*entry.layer, layer);
      };
      const Entry next = last == entries_.end() ? entries_.begin() : std::next(last);
      trained.push_back(std::find_if(next, entries_.end(), is_it));
      if (trained.back() != entries_.end()) last = trained.back();
    }
    trained.push_back(entries_.end());
    return trained;
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

  std::list<UnitedLayer> entries_;
};

}  // namespace

bool ComputeAlike(const LayerParameter& a, const LayerParameter& b) {
  return google::protobuf::util::MessageDifferencer::Equals(Essence(a), Essence(b));
}

NetParameter UnionOf(const NetParameter& train, const std::vector<NetParameter>& tests) {
  NetUnion all(train);
  for (int test = 0; test < static_cast<int>(tests.size()); ++test) {
    all.Add(Phase::OfTest(test).index(), tests[test]);
  }
  NetParameter net = train;
  net.clear_layer();
  net.clear_state();
  all.Write(1 + static_cast<int>(tests.size()), &net);
  return net;
}

}  // namespace hp
