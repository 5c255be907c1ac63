// A chain is chosen in two steps: which stages there are, of how many nodes each (all combinations of a few numbers),
// and where the conv layers are cut between them. The cuts that keep the busiest stage least busy are found stage by
// stage, for each layer that a stage may end in front of: by then the best ends of the stages before it are known.
#include "scheduler/planner/chains.h"

#include "net/plan/graph.h"
#include "scheduler/plan/net_facts.h"
#include "scheduler/plan/net_tail.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/planner/layer_time.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace hp {
namespace {

constexpr size_t kMostConvStages = 6;
constexpr int kMostNodes = 8;        // of a stage
constexpr int kMostCuts = 32;        // between convolutions
constexpr size_t kMostProducts = 8;  // that an FC stage may begin with
constexpr int kChainMicroBatches[] = {1, 2, 4, 8, 16, 32};
constexpr double kPays = 1.01;  // times as fast
constexpr double kNever = std::numeric_limits<double>::max();

int Sum(const std::vector<int>& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0); }

/// All lists that begin with `before` and go on with numbers that divide those in front of them, `left` in all at most.
void AddReplicas(int left, const std::vector<int>& before, std::vector<std::vector<int>>* lists) {
  if (!before.empty()) lists->push_back(before);
  if (before.size() == kMostConvStages) return;
  for (int replicas = 1; replicas <= std::min(left, kMostNodes); ++replicas) {
    if (!before.empty() && before.back() % replicas != 0) continue;
    std::vector<int> next = before;
    next.push_back(replicas);
    AddReplicas(left - replicas, next, lists);
  }
}

/// The FC stages of a chain.
struct Tail {
  std::vector<int> shards = {}, cuts = {};  // of each, and its first layer
};

}  // namespace

class ChainPlanner::Model {
 public:
  explicit Model(const PlanProblem& problem) : problem_(problem), layers_(problem.net->layer_size()) {}

  Status Init() {
    HP_ASSIGN_OR_RETURN(graph_, NetGraph::Create(problem_.net, caffe::TRAIN));
    HP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, graph_->Shapes(problem_.sample, 1));
    costs_ = CostsOf(*graph_, shapes);
    const std::vector<GraphLayer>& layers = graph_->layers();
    crossing_.assign(layers_ + 1, 0);
    const auto number_bytes = static_cast<double>(BytesOf(ElementOf(problem_.wire_precision)));
    wire_share_ = number_bytes / sizeof(float);
    std::vector<int> tensors(layers_ + 1, 0);
    for (size_t b = 0; b < shapes.size(); ++b) {
      const GraphBlob& blob = graph_->blobs()[b];
      if (blob.label || blob.consumers.empty()) continue;
      const int end = layers[blob.consumers.back()].order;
      for (int cut = layers[blob.producer].order + 1; cut <= end; ++cut) {
        crossing_[cut] += static_cast<double>(shapes[b].count()) * number_bytes;
        ++tensors[cut];
      }
    }
    for (std::vector<double>* sums : {&values_, &learned_, &parameters_}) sums->assign(layers_ + 1, 0);
    for (size_t i = 0; i < layers.size(); ++i) {
      const int behind = layers[i].order + 1;
      values_[behind] += static_cast<double>(costs_[i].out_bytes);
      learned_[behind] += static_cast<double>(costs_[i].learned_bytes);
      parameters_[behind] += static_cast<double>(costs_[i].parameter_bytes);
    }
    for (std::vector<double>* sums : {&values_, &learned_, &parameters_}) {
      std::partial_sum(sums->begin(), sums->end(), sums->begin());
    }
    // Stages end where one tensor crosses, never in front of a layer that writes in place nor between layers that share
    // parameters, and all have parameters to learn.
    const double all = learned_.back();
    for (const GraphLayer& layer : layers) {
      const bool both = learned_[layer.order] > 0 && learned_[layer.order] < all;
      const bool possible = both && !layer.in_place && !DividesShared(layer.order);
      if (possible && tensors[layer.order] == 1) cuts_.push_back(layer.order);
    }
    for (const int product : TailProducts(*problem_.net)) {
      if (std::find(cuts_.begin(), cuts_.end(), product) != cuts_.end()) products_.push_back(product);
    }
    ThinOutCuts();
    return OkStatus();
  }

  std::vector<TablePlan> Best(const std::vector<int>& order, size_t most) {
    const int places = static_cast<int>(order.size());
    std::vector<std::vector<int>> replicas;
    AddReplicas(places, {}, &replicas);
    std::map<std::tuple<int, size_t, size_t>, TablePlan> best;  // by numbers of nodes, conv stages, and FC stages
    for (const std::vector<int>& conv : replicas) {
      for (const Tail& tail : Tails(places - Sum(conv))) {
        if (conv.size() == 1 && tail.shards.size() < 2) continue;  // one conv stage and an FC stage, or none
        for (const int micro_batches : kChainMicroBatches) {
          if (micro_batches > 1 && UsesBatchStatistics(*problem_.net)) break;
          std::optional<TablePlan> plan = PlanOf(conv, tail, order, micro_batches);
          if (!plan) break;
          if (plan->prediction.missing > 0) continue;
          const auto [found, added] =
              best.try_emplace({Sum(conv) + Sum(tail.shards), conv.size(), tail.shards.size()}, *plan);
          if (!added && plan->samples_per_second() > found->second.samples_per_second()) found->second = *plan;
        }
      }
    }
    std::vector<TablePlan> plans;
    std::map<int, double> fastest;  // by numbers of nodes: of so many or fewer
    for (const auto& [kind, plan] : best) {
      const int nodes = std::get<0>(kind);
      double& here = fastest.try_emplace(nodes, fastest.empty() ? 0 : fastest.rbegin()->second).first->second;
      here = std::max(here, plan.samples_per_second());
    }
    for (auto& [kind, plan] : best) {
      // More nodes have to pay.
      const auto more = fastest.find(std::get<0>(kind));
      if (more != fastest.begin() && plan.samples_per_second() <= kPays * std::prev(more)->second) continue;
      plans.push_back(std::move(plan));
    }
    std::stable_sort(plans.begin(), plans.end(), [](const TablePlan& a, const TablePlan& b) {
      return a.samples_per_second() > b.samples_per_second();
    });
    if (plans.size() > most) plans.resize(most);
    return plans;
  }

  /// Predicts the chain of `plan` with its number of micro-batches. @return false: there are too few samples.
  bool Predict(TablePlan* plan) {
    const int readers = plan->chain[0].nodes;
    const double batch = static_cast<double>(problem_.work.batch) * (problem_.work.per_replica ? readers : 1);
    const double ids = 1.0 * readers * plan->micro_batches;  // of a batch
    const double rows = batch / ids, all_ids = ids * static_cast<double>(problem_.work.iter_size);
    if (rows < 1) return false;
    ++considered_;
    Prediction& prediction = plan->prediction = {};
    prediction.samples = batch * static_cast<double>(problem_.work.iter_size);
    plan->groups.clear();
    double way = 0, period = 0, update = 0;
    size_t conv = 0, fc = 0;
    for (size_t s = 0; s < plan->chain.size(); ++s) {
      const ChainStage& stage = plan->chain[s];
      const std::vector<int>& places = stage.conv ? plan->nodes.conv : plan->nodes.fc;
      size_t& taken = stage.conv ? conv : fc;
      const std::vector<int> own(places.begin() + taken, places.begin() + taken + stage.nodes);
      taken += stage.nodes;
      const int end = s + 1 < plan->chain.size() ? plan->chain[s + 1].first : layers_;
      const int behind = s + 1 < plan->chain.size() && !plan->chain[s + 1].conv ? plan->chain[s + 1].nodes : 1;
      const Load load = LoadOf({stage.first, end}, stage.conv, own, behind, rows);
      plan->groups.push_back({.place = load.place,
                              .hosts = stage.nodes,
                              .replicas = stage.conv ? 1 : 0,
                              .shards = stage.conv ? 0 : 1,
                              .rows = stage.conv ? batch / stage.nodes : 0,
                              .first = own[0]});
      HostLoad& host = prediction.loads.emplace_back();
      const double passing = stage.conv ? all_ids / stage.nodes : all_ids;  // ids that pass a node
      (stage.conv ? host.replica_s : host.shard_s) = passing * load.compute_s + load.update_s;
      host.exchanged = load.exchanged;
      host.out = host.in = passing * load.bytes + load.exchanged;
      host.memory = host.node_memory = load.memory;
      const double bandwidth = BandwidthOf(load.place);
      const double each = stage.conv ? 1.0 / stage.nodes : 1;
      way += load.compute_s + load.bytes / bandwidth + 2 * HostOf(load.place).latency_s;
      period = std::max({period, each * load.compute_s, each * load.bytes / bandwidth});
      update = std::max(update, load.update_s);
      prediction.exchange_s =
          std::max(prediction.exchange_s, load.exchanged / bandwidth - passing * load.compute_s / 2);
      AddLimits(s, bandwidth, RoomOf(load.place), &prediction);
    }
    prediction.seconds =
        std::max(way + (all_ids - 1) * period + std::max(0.0, prediction.exchange_s) + update, prediction.limit);
    return true;
  }

  int64_t considered() const { return considered_; }

 private:
  /// Whether layers in front of layer `cut` share parameters with others.
  bool DividesShared(int cut) const {
    const auto order = [this](const SharedParams::Use& use) {
      const auto& layers = graph_->layers();
      const auto found = std::find_if(layers.begin(), layers.end(),
                                      [&use](const GraphLayer& layer) { return layer.traits.name() == use.layer; });
      return found->order;
    };
    const auto& params = graph_->shared().params();
    return std::any_of(params.begin(), params.end(), [&](const SharedParams::Param& param) {
      return order(param.uses.front()) < cut && order(param.uses.back()) >= cut;
    });
  }

  /// Of the cuts of a deep net in front of its tail keeps those between which about as much is computed.
  void ThinOutCuts() {
    std::vector<double> work(layers_ + 1, 0);  // multiply-adds in front of a layer
    for (size_t i = 0; i < costs_.size(); ++i) {
      work[graph_->layers()[i].order + 1] += static_cast<double>(costs_[i].products);
    }
    std::partial_sum(work.begin(), work.end(), work.begin());
    const auto tail = std::find(cuts_.begin(), cuts_.end(), products_.empty() ? layers_ : products_[0]);
    if (tail - cuts_.begin() <= kMostCuts) return;
    std::vector<int> kept;
    double next = 0;
    const double step = work[tail == cuts_.end() ? layers_ : *tail] / kMostCuts;
    for (auto cut = cuts_.begin(); cut != tail; ++cut) {
      if (work[*cut] < next) continue;
      kept.push_back(*cut);
      while (next <= work[*cut]) next += step;
    }
    kept.insert(kept.end(), tail, cuts_.end());
    cuts_ = std::move(kept);
  }

  /// Of one node of a stage, and of one id that passes it.
  struct Load {
    int place = 0;  // the slowest of the stage
    double compute_s = 0, bytes = 0;
    double update_s = 0, exchanged = 0, memory = 0;  // of an iteration; seconds, and bytes each way
  };
  struct LayerRange {
    int begin = 0, end = 0;
  };
  /// Of all layers in front of a layer, by its index.
  struct Sums {
    std::vector<double> compute_s, update_s;
  };

  const HostInfo& HostOf(int place) const { return problem_.hosts.hosts[problem_.hosts.places[place].host]; }
  double BandwidthOf(int place) const { return HostOf(place).link_bytes_per_second; }
  double RoomOf(int place) const { return static_cast<double>(problem_.hosts.places[place].memory_bytes); }

  /// Whether a node that has all of the layer's gradient adds it up at the end of an update, as
  /// NodePlan::CanBeDeferred decides it.
  bool Deferred(int layer) const {
    const GraphLayer& entry = graph_->layers()[layer];
    const double weights = static_cast<double>(costs_[layer].parameter_bytes) / sizeof(float);
    const double row = static_cast<double>(costs_[layer].in_bytes + costs_[layer].out_bytes) / sizeof(float);
    return entry.channel_use() == ChannelUse::kSplitOutput && UpdateRows() * row < weights;
  }
  double UpdateRows() const { return static_cast<double>(problem_.work.samples(1)); }

  /// @param replicated several replicas sum their gradients up, so none is deferred.
  const Sums& SumsOf(int place, double rows, bool replicated) {
    const auto [found, added] = sums_.try_emplace({place, rows, replicated});
    Sums& sums = found->second;
    if (!added) return sums;
    const HostPlace& at = problem_.hosts.places[place];
    const LayerTimes times(costs_, at.speed, at.profile.get(), at.scale);
    sums.compute_s.assign(layers_ + 1, 0);
    sums.update_s.assign(layers_ + 1, 0);
    for (int i = 0; i < static_cast<int>(costs_.size()); ++i) {
      const int behind = graph_->layers()[i].order + 1;
      const bool deferred = !replicated && Deferred(i);
      for (const Pass pass : {Pass::kForward, Pass::kInputGradient}) {
        sums.compute_s[behind] += times.Seconds(i, pass, rows);
      }
      (deferred ? sums.update_s : sums.compute_s)[behind] +=
          times.Seconds(i, Pass::kWeightGradient, deferred ? UpdateRows() : rows);
      if (costs_[i].learns) sums.update_s[behind] += times.UpdateSeconds(i);
    }
    std::partial_sum(sums.compute_s.begin(), sums.compute_s.end(), sums.compute_s.begin());
    std::partial_sum(sums.update_s.begin(), sums.update_s.end(), sums.update_s.begin());
    return sums;
  }

  /// @param behind how often each sample goes to the next stage: to each shard once.
  Load LoadOf(const LayerRange& range, bool conv, const std::vector<int>& places, int behind, double rows) {
    Load load{.place = places[0]};
    const double nodes = static_cast<double>(places.size()), part = conv ? 1 : 1 / nodes;
    for (const int place : places) {
      const Sums& sums = SumsOf(place, rows, conv && places.size() > 1);
      const double seconds = part * (sums.compute_s[range.end] - sums.compute_s[range.begin]);
      if (seconds <= load.compute_s) continue;
      load.place = place;
      load.compute_s = seconds;
      load.update_s = part * (sums.update_s[range.end] - sums.update_s[range.begin]);
    }
    load.bytes = rows * (crossing_[range.begin] + part * behind * crossing_[range.end]);
    const auto of_range = [&range](const std::vector<double>& sums) { return sums[range.end] - sums[range.begin]; };
    load.memory = part * (of_range(parameters_) + 2 * of_range(learned_) + rows * of_range(values_));
    if (conv) {
      load.exchanged = 2 * (nodes - 1) / nodes * wire_share_ * of_range(learned_);
      return load;
    }
    // Slices are gathered for the next product, and its input's gradients summed up.
    for (const int product : products_) {
      if (product > range.begin && product < range.end) load.bytes += rows * 2 * (1 - part) * crossing_[product];
    }
    return load;
  }

  static void AddLimits(size_t stage, double bandwidth, double room, Prediction* prediction) {
    const HostLoad& load = prediction->loads[stage];
    const double limits[] = {load.compute_s(), load.out / bandwidth, load.in / bandwidth};
    for (int resource = 0; resource < 3; ++resource) {
      if (limits[resource] <= prediction->limit) continue;
      prediction->limit = limits[resource];
      prediction->resource = static_cast<Prediction::Resource>(resource);
      prediction->busiest = static_cast<int>(stage);
    }
    if (load.memory - room <= prediction->missing) return;
    prediction->missing = load.memory - room;
    prediction->short_of_memory = static_cast<int>(stage);
  }

  /// The FC stages that a chain may have on so many nodes, none among them.
  std::vector<Tail> Tails(int nodes) const {
    std::vector<Tail> tails = {{}};
    const size_t step = std::max<size_t>(1, (products_.size() + kMostProducts - 1) / kMostProducts);
    for (size_t first = 0; first < products_.size(); first += step) {
      for (int shards = 1; shards <= std::min(nodes, kMostNodes); shards *= 2) {
        tails.push_back({{shards}, {products_[first]}});
        for (size_t second = first + step; second < products_.size(); second += step) {
          for (int more = 1; more <= std::min(nodes - shards, kMostNodes); more *= 2) {
            tails.push_back({{shards, more}, {products_[first], products_[second]}});
          }
        }
      }
    }
    return tails;
  }

  /// @return nothing: there are too few samples, or places for a cut.
  std::optional<TablePlan> PlanOf(const std::vector<int>& conv, const Tail& tail, const std::vector<int>& order,
                                  int micro_batches) {
    const double batch = static_cast<double>(problem_.work.batch) * (problem_.work.per_replica ? conv[0] : 1);
    const double ids = 1.0 * conv[0] * micro_batches;
    if (batch < ids) return std::nullopt;
    const int end = tail.cuts.empty() ? layers_ : tail.cuts[0], behind = tail.shards.empty() ? 1 : tail.shards[0];
    const std::vector<int>& firsts = ConvCuts(conv, end, behind, order, batch / ids, ids);
    if (firsts.empty()) return std::nullopt;
    TablePlan plan;
    plan.micro_batches = micro_batches;
    for (size_t s = 0; s < conv.size(); ++s) plan.chain.push_back({firsts[s], true, conv[s]});
    for (size_t s = 0; s < tail.shards.size(); ++s) plan.chain.push_back({tail.cuts[s], false, tail.shards[s]});
    plan.nodes.conv.assign(order.begin(), order.begin() + Sum(conv));
    plan.nodes.fc.assign(order.begin() + Sum(conv), order.begin() + Sum(conv) + Sum(tail.shards));
    if (!Predict(&plan)) return std::nullopt;
    return plan;
  }

  /// The first layer of each conv stage, the last of which ends in front of layer `end`. Empty: there are too few cuts.
  const std::vector<int>& ConvCuts(const std::vector<int>& conv, int end, int behind, const std::vector<int>& order,
                                   double rows, double ids) {
    const auto [known, added] = conv_cuts_.try_emplace({conv, end, behind, rows});
    std::vector<int>& firsts = known->second;
    if (!added) return firsts;
    std::vector<int> ends;
    for (const int cut : cuts_) {
      if (cut < end) ends.push_back(cut);
    }
    ends.push_back(end);
    // By stage and index into `ends`: the busiest of the stages up to it, and where it begins.
    std::vector<std::vector<double>> busiest(conv.size(), std::vector<double>(ends.size(), kNever));
    std::vector<std::vector<int>> begins(conv.size(), std::vector<int>(ends.size(), -1));
    const double updates = ids * static_cast<double>(problem_.work.iter_size);
    int offset = 0;
    for (size_t s = 0; s < conv.size(); offset += conv[s++]) {
      const std::vector<int> places(order.begin() + offset, order.begin() + offset + conv[s]);
      const bool last = s + 1 == conv.size();
      for (size_t e = last ? ends.size() - 1 : 0; e < ends.size(); ++e) {
        for (int b = s == 0 ? -1 : 0; b < (s == 0 ? 0 : static_cast<int>(e)); ++b) {
          const double before = s == 0 ? 0 : busiest[s - 1][b];
          if (before >= busiest[s][e]) continue;
          const Load load = LoadOf({b < 0 ? 0 : ends[b], ends[e]}, true, places, last ? behind : 1, rows);
          const double bytes = load.bytes / conv[s] + load.exchanged / updates;
          const double own = std::max(load.compute_s / conv[s], bytes / BandwidthOf(load.place));
          if (std::max(before, own) >= busiest[s][e]) continue;
          busiest[s][e] = std::max(before, own);
          begins[s][e] = b;
        }
      }
    }
    size_t e = ends.size() - 1;
    if (busiest.back()[e] == kNever) return firsts;
    firsts.assign(conv.size(), 0);
    for (size_t s = conv.size() - 1; s > 0; --s) {
      e = static_cast<size_t>(begins[s][e]);
      firsts[s] = ends[e];
    }
    return firsts;
  }

  const PlanProblem& problem_;
  const int layers_;  // of the prototxt
  std::unique_ptr<NetGraph> graph_;
  std::vector<LayerCost> costs_;
  std::vector<double> crossing_;  // bytes of a sample that cross a cut in front of a layer of the prototxt
  double wire_share_ = 1;         // bytes of a gradient on its way, of those in memory
  std::vector<double> values_, learned_, parameters_;  // bytes of all layers in front of it; values: of a sample
  std::vector<int> cuts_, products_;  // layers that a stage may begin with, and those of them that shards divide
  std::map<std::tuple<int, double, bool>, Sums> sums_;  // by place, rows, and whether it is a replica among several
  std::map<std::tuple<std::vector<int>, int, int, double>, std::vector<int>> conv_cuts_;
  int64_t considered_ = 0;
};

StatusOr<std::unique_ptr<ChainPlanner>> ChainPlanner::Create(const PlanProblem& problem) {
  auto model = std::make_unique<Model>(problem);
  HP_RETURN_IF_ERROR(model->Init());
  return std::unique_ptr<ChainPlanner>(new ChainPlanner(std::move(model)));
}

ChainPlanner::ChainPlanner(std::unique_ptr<Model> model) : model_(std::move(model)) {}
ChainPlanner::~ChainPlanner() = default;

std::vector<TablePlan> ChainPlanner::Best(const std::vector<int>& order, size_t most) {
  return model_->Best(order, most);
}

std::optional<TablePlan> ChainPlanner::WithMicroBatches(const TablePlan& plan, int micro_batches) {
  TablePlan other = plan;
  other.micro_batches = micro_batches;
  other.simulated_s.reset();
  if (micro_batches < 1 || !model_->Predict(&other) || other.prediction.missing > 0) return std::nullopt;
  return other;
}

int64_t ChainPlanner::considered() const { return model_->considered(); }

}  // namespace hp
