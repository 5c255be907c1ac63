// A head is an InnerProduct and all that follows it. Those of branches that come together, or share parameters, are one
// stage's, wherever their layers stand in the file.
#include "scheduler/plan/net_tail.h"

#include "base/format.h"
#include "layers/traits/layer_types.h"

#include <algorithm>

namespace hp {
namespace {

/// Whether shards can't divide the layer, and it has more than a few parameters.
bool IsUndivided(const caffe::LayerParameter& layer) {
  const LayerTypes& types = LayerTypes::BuiltIn();
  return !types.SplitOutputs(layer) && types.HasParameters(layer) && !types.HasSmallBlobs(layer);
}

/// An InnerProduct and all that follows it; empty: a layer with other parameters does, or one from `end` on.
std::set<int> HeadOf(const caffe::NetParameter& net, int product, int end) {
  std::set<std::string> blobs(net.layer(product).top().begin(), net.layer(product).top().end());
  std::set<int> head = {product};
  for (int i = product + 1; i < net.layer_size(); ++i) {
    const caffe::LayerParameter& layer = net.layer(i);
    const bool reads = std::any_of(layer.bottom().begin(), layer.bottom().end(),
                                   [&blobs](const std::string& blob) { return blobs.contains(blob); });
    if (!reads) continue;
    if (i >= end || IsUndivided(layer)) return {};
    blobs.insert(layer.top().begin(), layer.top().end());
    head.insert(i);
  }
  return head;
}

/// Whether two heads have a layer in common, or layers that share a parameter.
bool Meet(const caffe::NetParameter& net, const std::set<int>& a, const std::set<int>& b) {
  std::set<std::string> names;
  for (const int layer : a) {
    if (b.contains(layer)) return true;
    for (const caffe::ParamSpec& param : net.layer(layer).param()) names.insert(param.name());
  }
  names.erase("");
  return std::any_of(b.begin(), b.end(), [&](int layer) {
    const auto& params = net.layer(layer).param();
    return std::any_of(params.begin(), params.end(),
                       [&names](const caffe::ParamSpec& param) { return names.contains(param.name()); });
  });
}

/// The last InnerProduct's head with all others that meet it. Empty: stages can't have them, since they share
/// parameters with other layers, or there is none.
std::set<int> JoinedHeads(const caffe::NetParameter& net) {
  std::vector<std::set<int>> heads;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (!LayerTypes::BuiltIn().SplitOutputs(net.layer(i))) continue;
    if (std::set<int> head = HeadOf(net, i, net.layer_size()); !head.empty()) heads.push_back(std::move(head));
  }
  std::set<int> joined;
  for (bool grows = !heads.empty(); grows;) {
    grows = false;
    if (joined.empty()) joined = heads.back();
    for (const std::set<int>& head : heads) {
      if (!Meet(net, joined, head)) continue;
      const size_t before = joined.size();
      joined.insert(head.begin(), head.end());
      grows |= joined.size() > before;
    }
  }
  return DividesSharedNames(net, [&joined](int i) { return joined.contains(i); }) ? std::set<int>() : joined;
}

}  // namespace

bool DividesSharedNames(const caffe::NetParameter& net, const std::function<bool(int)>& inside) {
  std::set<std::string> names[2];
  for (int i = 0; i < net.layer_size(); ++i) {
    for (const caffe::ParamSpec& param : net.layer(i).param()) {
      if (param.name().empty()) continue;
      if (names[!inside(i)].contains(param.name())) return true;
      names[inside(i)].insert(param.name());
    }
  }
  return false;
}

std::vector<int> TailProducts(const caffe::NetParameter& net) {
  const LayerTypes& types = LayerTypes::BuiltIn();
  std::vector<int> products;
  for (int i = 0; i < net.layer_size(); ++i) {
    if (types.SplitOutputs(net.layer(i))) {
      products.push_back(i);
    } else if (IsUndivided(net.layer(i))) {
      products.clear();
    }
  }
  return products;
}

std::vector<int> SideClassifiers(const caffe::NetParameter& net, int before) {
  std::set<int> all;
  for (int product = 0; product < before; ++product) {
    if (LayerTypes::BuiltIn().SplitOutputs(net.layer(product))) all.merge(HeadOf(net, product, before));
  }
  return {all.begin(), all.end()};
}

std::string WhereTailBegins(const caffe::NetParameter& net) {
  const auto& layers = net.layer();
  const auto last = std::find_if(layers.rbegin(), layers.rend(), IsUndivided);
  if (last == layers.rend()) return "after its last convolution";
  const auto is_product = [](const caffe::LayerParameter& layer) { return layer.type() == "InnerProduct"; };
  const auto before = std::find_if(std::next(last), layers.rend(), [&is_product](const caffe::LayerParameter& layer) {
    return IsUndivided(layer) && !is_product(layer);
  });
  const auto first = std::find_if(before.base(), last.base(), is_product);
  if (first == last.base()) {
    return last->type() == "Convolution" ? "after its last convolution" : "after layer \"" + last->name() + "\"";
  }
  const std::string kind =
      is_product(*last) ? ", an InnerProduct along another axis than 1" : " (" + last->type() + ")";
  return Format(
      "after layer \"%s\"%s, which shards don't divide; --cut=%s begins a stage, of one shard, with the products "
      "before it",
      last->name().c_str(), kind.c_str(), first->name().c_str());
}

std::set<int> BranchesOfTail(const caffe::NetParameter& net) {
  const std::vector<int> tail = TailProducts(net);
  if (tail.empty()) return {};
  const std::set<int> joined = JoinedHeads(net);
  if (joined.empty() || *joined.begin() >= tail[0]) return {};
  const bool can_cut = std::any_of(tail.begin(), tail.end(), [&net](int product) {
    return !DividesSharedNames(net, [product](int i) { return i >= product; });
  });
  const bool meets_tail = std::any_of(joined.begin(), joined.end(), [&](int product) {
    if (product >= tail[0] || !LayerTypes::BuiltIn().SplitOutputs(net.layer(product))) return false;
    const std::set<int> head = HeadOf(net, product, net.layer_size());
    return !head.empty() && *head.rbegin() >= tail[0];
  });
  return !can_cut || meets_tail ? joined : std::set<int>();
}

}  // namespace hp
