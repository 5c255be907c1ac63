// The search goes over kinds of tables, not tables: how the net is cut and split, and how many nodes of each kind there
// are. Hosts that are alike are one group; where there are many kinds they are put into a few classes for the search
// (OrderedHosts), and only the best plans are predicted again for the hosts as they are. How the layers behind
// a cut are split hardly depends on the number of replicas, so the best two ways are found first and then tried with
// all numbers.
#include "scheduler/planner/planner.h"

#include "base/format.h"
#include "scheduler/plan/net_facts.h"
#include "scheduler/plan/net_tail.h"
#include "scheduler/plan/routing_table.h"
#include "scheduler/planner/chains.h"
#include "scheduler/planner/ordered_hosts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace hp {
namespace {

constexpr int kMostShards = 64;   // more slices than this are too thin to be worth their exchanges
constexpr size_t kAgain = 24;     // plans that are predicted again for the hosts as they are
constexpr size_t kReturned = 24;  // plans, most of them much alike
constexpr size_t kChains = 12;    // that are returned besides
constexpr int kMicroBatches[] = {1, 2, 4, 8, 16};
constexpr double kSimpler = 1.02;  // a simpler kind of table wins within this
constexpr int kMostShare = 10000;

/// 1 to 8, then four numbers for each power of 2, up to `most`, and `most` itself.
std::vector<int> CountsUpTo(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count += count < 8 ? 1 : 1 << (static_cast<int>(std::log2(count)) - 2)) {
    counts.push_back(count);
  }
  if (most > 0) counts.push_back(most);
  return counts;
}

/// What to compare tables by: seconds of a sample, more for a kind that has to pay.
double ScoreOf(double seconds_per_sample, int replicas, int shards, int servers) {
  const double nodes = shards > 0 ? kSimpler * kSimpler : replicas > 1 ? kSimpler : 1;
  return seconds_per_sample * nodes * (servers > 0 ? kSimpler : 1);
}

double ScoreOf(const TablePlan& plan) {
  const double score = ScoreOf(1 / plan.samples_per_second(), plan.replicas(), plan.shards(), plan.servers());
  return plan.chain.empty() ? score : score * kSimpler;
}

/// Whether each replica has a sample for each of its micro-batches, by shares as whole numbers.
bool SamplesSuffice(const Workload& work, const TablePlan& plan, int micro_batches) {
  if (work.per_replica || plan.shares.empty()) {
    return std::all_of(plan.groups.begin(), plan.groups.end(), [micro_batches](const HostGroup& group) {
      return group.replicas == 0 || group.rows >= micro_batches * (1 - 1e-9);
    });
  }
  const int64_t least = *std::min_element(plan.shares.begin(), plan.shares.end());
  const int64_t all = std::accumulate(plan.shares.begin(), plan.shares.end(), int64_t{0});
  return work.batch * least >= all * micro_batches;
}

/// A table as the search sees it.
struct Candidate {
  const DividedNet* net = nullptr;
  int replicas = 1;
  int servers = 0;
  bool beside = false;
  bool fc_first = false;  // shards take the fastest places, else replicas do
  int micro_batches = 1;
  std::vector<HostGroup> groups = {};
  Prediction prediction = {};
};

class Search {
 public:
  explicit Search(const PlanProblem& problem)
      : problem_(problem),
        predictor_(problem.hosts, problem.work),
        hosts_(problem.hosts),
        layers_(problem.net->layer_size()) {}

  StatusOr<PlanChoice> Run() {
    HP_ASSIGN_OR_RETURN(const DividedNet* const whole, NetOf({}));
    hosts_.Order([&](int place) { return SecondsAlone(*whole, place); });
    HP_RETURN_IF_ERROR(TryReplicas());
    for (const int cut : TailProducts(*problem_.net)) {
      if (cut == 0) continue;
      TryCut(cut, false);
      if (!SideClassifiers(*problem_.net, cut).empty()) TryCut(cut, true);
    }
    TryServers();
    return Choose();
  }

 private:
  int places() const { return hosts_.places(); }

  /// Of an iteration, of a node there with no others.
  double SecondsAlone(const DividedNet& whole, int place) {
    HostGroup alone;
    alone.place = place;
    alone.replicas = 1;
    alone.rows = static_cast<double>(problem_.work.batch);
    return predictor_.Predict(whole, 1, {alone}).loads[0].replica_s;
  }

  static NodeCounts CountsOf(const Candidate& candidate) {
    return {candidate.replicas, candidate.net->division().shards, candidate.servers, candidate.beside,
            candidate.fc_first};
  }

  StatusOr<const DividedNet*> NetOf(NetDivision division) {
    division.wire = ElementOf(problem_.wire_precision);
    for (const auto& net : nets_) {
      if (net->division() == division) return net.get();
    }
    const int64_t rows = static_cast<int64_t>(problem_.work.samples(1));
    HP_ASSIGN_OR_RETURN(std::unique_ptr<DividedNet> net,
                        DividedNet::Create(problem_.net, problem_.sample, division, rows));
    nets_.push_back(std::move(net));
    return nets_.back().get();
  }

  // --- Candidates

  /// @return false: it can't be, since replicas have too few samples.
  bool Predict(Candidate* candidate, const std::vector<HostGroup>& groups) {
    candidate->groups = groups;
    if (!predictor_.ShareRows(*candidate->net, candidate->micro_batches, &candidate->groups)) return false;
    candidate->prediction = predictor_.Predict(*candidate->net, candidate->micro_batches, candidate->groups);
    ++considered_;
    return true;
  }

  /// Tries all numbers of micro-batches, and keeps the best.
  std::optional<Candidate> BestOf(Candidate candidate, const std::vector<HostGroup>& groups) {
    std::optional<Candidate> best;
    for (const int micro_batches : kMicroBatches) {
      if (micro_batches > 1 && UsesBatchStatistics(*problem_.net)) break;
      candidate.micro_batches = micro_batches;
      if (!Predict(&candidate, groups)) break;
      if (candidate.prediction.missing > 0) {
        if (!tightest_ || candidate.prediction.missing < tightest_->prediction.missing) tightest_ = candidate;
        continue;
      }
      // More micro-batches hold more tables' lines and messages: they have to pay.
      if (!best || candidate.prediction.seconds * 1.005 < best->prediction.seconds) best = candidate;
    }
    return best;
  }

  /// Keeps the best candidate of each cut and numbers of nodes, with parameter servers and without.
  void Keep(const std::optional<Candidate>& candidate) {
    if (!candidate) return;
    const NetDivision& division = candidate->net->division();
    std::optional<Candidate>& kept = kept_[{division.cut, division.sides, division.shards, candidate->replicas,
                                            candidate->beside, candidate->servers > 0}];
    if (!kept || candidate->prediction.seconds / candidate->prediction.samples <
                     kept->prediction.seconds / kept->prediction.samples) {
      kept = candidate;
    }
  }

  Status TryReplicas() {
    for (const int replicas : CountsUpTo(places())) {
      NetDivision division;
      division.replicated = replicas > 1;
      HP_ASSIGN_OR_RETURN(const DividedNet* const net, NetOf(division));
      const Candidate candidate{net, replicas};
      Keep(BestOf(candidate, hosts_.RoughGroups(CountsOf(candidate))));
    }
    return OkStatus();
  }

  /// The ways to split the layers behind a cut over several shards.
  std::vector<NetDivision> DivisionsOf(int cut, bool sides, int shards) const {
    const LayerTypes& types = LayerTypes::BuiltIn();
    std::vector<int> layers, products;  // of the stage; those whose inputs can be divided as well
    if (sides) layers = SideClassifiers(*problem_.net, cut);
    for (int i = cut; i < layers_; ++i) layers.push_back(i);
    for (const int i : layers) {
      const caffe::LayerParameter& layer = problem_.net->layer(i);
      if (types.SplitOutputs(layer) && types.SplitsInputs(layer)) products.push_back(i);
    }
    const size_t all = products.size();
    std::vector<std::vector<bool>> by_inputs = {std::vector<bool>(all, false)};
    if (shards > 1 && all <= 3) {
      for (unsigned bits = 1; bits < 1u << all; ++bits) {
        by_inputs.emplace_back();
        for (size_t i = 0; i < all; ++i) by_inputs.back().push_back((bits >> i & 1) != 0);
      }
    } else if (shards > 1) {
      by_inputs.emplace_back(all, true);
      for (const size_t odd : {0u, 1u}) {
        by_inputs.emplace_back();
        for (size_t i = 0; i < all; ++i) by_inputs.back().push_back(i % 2 == odd);
      }
    }
    std::vector<NetDivision> divisions;
    for (const std::vector<bool>& inputs : by_inputs) {
      NetDivision division;
      division.cut = cut;
      division.sides = sides;
      division.shards = shards;
      for (size_t i = 0; i < all; ++i) {
        if (inputs[i]) division.splits.emplace_back(products[i], LayerSplit::kInputs);
      }
      divisions.push_back(division);
      // Where the first layer reads slices, the boundary is scattered anyhow.
      if (shards == 1 || (all > 0 && inputs[0])) continue;
      division.scattered = true;
      divisions.push_back(division);
    }
    return divisions;
  }

  void TryCut(int cut, bool sides) {
    for (const int shards : CountsUpTo(std::min(kMostShards, places()))) {
      for (const bool beside : {false, true}) {
        const int most = beside ? places() : places() - shards;
        if (most < 1 || (beside && places() == 1)) continue;
        TryShards(cut, sides, shards, beside, most);
      }
    }
  }

  void TryShards(int cut, bool sides, int shards, bool beside, int most) {
    // With about as many replicas as there will be: the fewest samples that still make four micro-batches.
    const double samples = static_cast<double>(problem_.work.batch) / (problem_.work.per_replica ? 1e-9 : 4);
    const int typical = std::max(1, static_cast<int>(std::min<double>(most, samples)));
    std::vector<std::pair<double, NetDivision>> ways;
    for (NetDivision division : DivisionsOf(cut, sides, shards)) {
      division.replicated = typical > 1;
      const auto net = NetOf(division);
      if (!net.ok()) continue;
      const Candidate candidate{.net = *net, .replicas = typical, .beside = beside};
      const auto best = BestOf(candidate, hosts_.RoughGroups(CountsOf(candidate)));
      if (best) ways.emplace_back(best->prediction.seconds, division);
    }
    std::stable_sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (ways.size() > 2) ways.resize(2);
    for (const auto& [seconds, way] : ways) {
      for (const int replicas : CountsUpTo(most)) {
        if (beside && replicas == 1 && shards == 1) continue;  // one machine
        NetDivision division = way;
        division.replicated = replicas > 1;
        const auto net = NetOf(division);
        if (!net.ok()) continue;
        for (const bool fc_first : {false, true}) {
          if (fc_first && (beside || hosts_.alike())) continue;
          const Candidate candidate{.net = *net, .replicas = replicas, .beside = beside, .fc_first = fc_first};
          Keep(BestOf(candidate, hosts_.RoughGroups(CountsOf(candidate))));
        }
      }
    }
  }

  /// Gives the replicas of plain data parallelism, and of the best other tables, parameter servers on places that are
  /// left.
  void TryServers() {
    std::vector<Candidate> candidates = Sorted(), with_replicas;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const bool alone = candidates[i].net->division().shards == 0;
      if (candidates[i].replicas > 1 && (alone || i < kAgain)) with_replicas.push_back(candidates[i]);
    }
    for (Candidate candidate : with_replicas) {
      const NodePlaces without = hosts_.PlacesOf(CountsOf(candidate));
      const int most = std::min(2 * candidate.replicas,
                                places() - static_cast<int>(std::ssize(without.conv) + std::ssize(without.fc)));
      for (candidate.servers = 1; candidate.servers <= most; candidate.servers *= 2) {
        const NodePlaces nodes = hosts_.PlacesOf(CountsOf(candidate));
        if (!OnProcessors(nodes.conv) || !OnProcessors(nodes.ps)) break;
        Keep(BestOf(candidate, hosts_.RoughGroups(CountsOf(candidate))));
      }
    }
  }

  bool OnProcessors(const std::vector<int>& places) const {
    return std::all_of(places.begin(), places.end(),
                       [this](int place) { return problem_.hosts.places[place].device == "cpu"; });
  }

  // --- The choice

  static int HostsOf(const Candidate& candidate) {
    int hosts = 0;
    for (const HostGroup& group : candidate.groups) hosts += group.hosts;
    return hosts;
  }

  static double Score(const Candidate& candidate) {
    const Prediction& prediction = candidate.prediction;
    return ScoreOf(prediction.seconds / prediction.samples, candidate.replicas, candidate.net->division().shards,
                   candidate.servers);
  }

  static void Sort(std::vector<Candidate>* candidates) {
    std::stable_sort(candidates->begin(), candidates->end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(Score(a), a.replicas) < std::tuple(Score(b), b.replicas);
    });
  }

  /// What was kept, the best first.
  std::vector<Candidate> Sorted() const {
    std::vector<Candidate> candidates;
    for (const auto& [kind, candidate] : kept_) candidates.push_back(*candidate);
    Sort(&candidates);
    return candidates;
  }

  StatusOr<PlanChoice> Choose() {
    std::vector<Candidate> candidates = Sorted();
    if (!hosts_.exact()) {
      KeepFirst(&candidates);
      std::erase_if(candidates, [this](Candidate& candidate) {
        return !Predict(&candidate, hosts_.ExactGroups(CountsOf(candidate))) || candidate.prediction.missing > 0;
      });
      Sort(&candidates);
    }
    if (!candidates.empty()) FewestHostsFirst(&candidates);
    PlanChoice choice;
    for (const Candidate& candidate : candidates) {
      std::optional<TablePlan> plan;
      const auto made = [&]() -> const std::optional<TablePlan>& {
        if (!plan) plan = PlanOf(candidate);
        return plan;
      };
      const bool alone = candidate.net->division().shards == 0;
      if (choice.plans.size() < kReturned && made()) choice.plans.push_back(*plan);
      if (alone && candidate.replicas == 1 && !choice.one_node) choice.one_node = made();
      const bool data_parallel = alone && candidate.replicas > 1 && candidate.servers == 0;
      if (data_parallel && !choice.data_parallel) choice.data_parallel = made();
    }
    HP_RETURN_IF_ERROR(AddChains(&choice));
    if (choice.plans.empty()) return DoesNotFit();
    choice.considered += considered_;
    return choice;
  }

  /// Within the margin of a simpler kind.
  static void FewestHostsFirst(std::vector<Candidate>* candidates) {
    const double margin = Score(candidates->front()) * kSimpler;
    const auto behind = std::find_if(candidates->begin(), candidates->end(),
                                     [margin](const Candidate& candidate) { return Score(candidate) > margin; });
    const auto fewest = std::min_element(
        candidates->begin(), behind, [](const Candidate& a, const Candidate& b) { return HostsOf(a) < HostsOf(b); });
    std::rotate(candidates->begin(), fewest, fewest + 1);
  }

  Status AddChains(PlanChoice* choice) {
    if (places() > kMostChained || places() < 2) return OkStatus();
    // The losses that read several labels of a row are at a chain's end, but must run in its first stage.
    if (problem_.sample.several_labels()) return OkStatus();
    HP_ASSIGN_OR_RETURN(const std::unique_ptr<ChainPlanner> chains, ChainPlanner::Create(problem_));
    std::vector<TablePlan> best = chains->Best(hosts_.PlacesOf({.replicas = places()}).conv, kChains);
    choice->considered += chains->considered();
    if (best.empty()) return OkStatus();
    choice->plans.insert(choice->plans.end(), best.begin(), best.end());
    SortPlans(&choice->plans);
    return OkStatus();
  }

  /// The first of all, and of the kinds that every answer names.
  static void KeepFirst(std::vector<Candidate>* candidates) {
    std::vector<Candidate> kept(candidates->begin(), candidates->begin() + std::min(kAgain, candidates->size()));
    for (const bool one : {true, false}) {
      const auto found = std::find_if(candidates->begin(), candidates->end(), [one](const Candidate& candidate) {
        const bool alone = candidate.net->division().shards == 0 && candidate.servers == 0;
        return alone && (candidate.replicas == 1) == one;
      });
      if (found != candidates->end()) kept.push_back(*found);
    }
    *candidates = std::move(kept);
  }

  /// @return nothing: shares as whole numbers would leave a replica without a sample for each micro-batch.
  std::optional<TablePlan> PlanOf(const Candidate& candidate) const {
    TablePlan plan;
    plan.net = Shared(candidate.net);
    plan.beside = candidate.beside;
    plan.micro_batches = candidate.micro_batches;
    plan.groups = candidate.groups;
    plan.prediction = candidate.prediction;
    plan.nodes = hosts_.PlacesOf(CountsOf(candidate));
    // Within what is alike, the order of the user's list.
    const int beside = CountsOf(candidate).shards_beside();
    std::vector<int>& conv = plan.nodes.conv;
    std::sort(conv.begin(), conv.begin() + beside);
    std::sort(conv.begin() + beside, conv.end());
    std::sort(plan.nodes.fc.begin(), plan.nodes.fc.end());
    std::sort(plan.nodes.ps.begin(), plan.nodes.ps.end());
    if (!SetShares(candidate, &plan)) return std::nullopt;
    return plan;
  }

  bool SetShares(const Candidate& candidate, TablePlan* plan) const {
    std::map<std::tuple<int, bool>, double> rows;  // of a replica, by kind and whether a shard is beside it
    for (const HostGroup& group : candidate.groups) {
      if (group.replicas > 0) rows[{group.place, group.shards > 0}] = group.rows;
    }
    const bool exact = rows.size() <= 1 || problem_.work.per_replica;
    if (exact) return true;
    std::set<int> fc_hosts;
    for (const int place : plan->nodes.fc) fc_hosts.insert(problem_.hosts.places[place].host);
    for (int i = 0; i < CountsOf(candidate).shards_beside(); ++i) {
      fc_hosts.insert(problem_.hosts.places[plan->nodes.conv[i]].host);
    }
    double most = 0;
    for (const auto& [kind, each] : rows) most = std::max(most, each);
    // A share for each sample, where that is no larger than a share may be.
    const double scale = std::min(1.0, kMostShare / most);
    int64_t divisor = 0;
    for (const int place : plan->nodes.conv) {
      const bool shard = fc_hosts.contains(problem_.hosts.places[place].host);
      const double each = rows.at({hosts_.exact_kind(place), shard});
      plan->shares.push_back(std::max(1, static_cast<int>(std::lround(each * scale))));
      divisor = std::gcd(divisor, plan->shares.back());
    }
    for (int& share : plan->shares) share = static_cast<int>(share / divisor);
    if (!SamplesSuffice(problem_.work, *plan, plan->micro_batches)) return false;
    const bool alike =
        std::all_of(plan->shares.begin(), plan->shares.end(), [plan](int share) { return share == plan->shares[0]; });
    if (alike) plan->shares.clear();
    return true;
  }

  std::shared_ptr<const DividedNet> Shared(const DividedNet* net) const {
    return *std::find_if(nets_.begin(), nets_.end(), [net](const auto& known) { return known.get() == net; });
  }

  Status DoesNotFit() const {
    if (!tightest_) {
      return InvalidArgument("a batch of %lld samples can't be divided over any of the hosts",
                             static_cast<long long>(problem_.work.batch));
    }
    const Prediction& prediction = tightest_->prediction;
    const HostGroup& group = tightest_->groups[prediction.short_of_memory];
    const HostPlace& place = problem_.hosts.places[group.place];
    const HostInfo& host = problem_.hosts.hosts[place.host];
    const bool on_host = place.device == "cpu";
    const int64_t room = place.memory_bytes;
    return InvalidArgument(
        "the hosts can't hold the net: the table that needs the least, %d conv node(s) and %d shard(s), takes about %s "
        "on %s%s, which has %s: %s too little; take more hosts, hosts with more memory, or a smaller batch_size",
        tightest_->replicas, tightest_->net->division().shards,
        MegaBytes(static_cast<size_t>(static_cast<double>(room) + prediction.missing)).c_str(),
        (on_host ? "host \"" + host.name : "device \"" + place.device + "\" of host \"" + host.name).c_str(), "\"",
        MegaBytes(static_cast<size_t>(room)).c_str(), MegaBytes(static_cast<size_t>(prediction.missing)).c_str());
  }

  const PlanProblem& problem_;
  Predictor predictor_;
  OrderedHosts hosts_;
  const int layers_;
  std::vector<std::shared_ptr<const DividedNet>> nets_;
  /// By cut, sides, shards, replicas, beside and whether there are parameter servers.
  std::map<std::tuple<int, bool, int, int, bool, bool>, std::optional<Candidate>> kept_;
  std::optional<Candidate> tightest_;  // of those that do not fit
  int64_t considered_ = 0;
};

}  // namespace

StatusOr<PlanChoice> ChoosePlan(const PlanProblem& problem) { return Search(problem).Run(); }

std::optional<TablePlan> WithMicroBatches(const PlanProblem& problem, const TablePlan& plan, int micro_batches) {
  if (micro_batches > 1 && UsesBatchStatistics(*problem.net)) return std::nullopt;
  if (!plan.chain.empty()) {
    const auto chains = ChainPlanner::Create(problem);
    return chains.ok() ? (*chains)->WithMicroBatches(plan, micro_batches) : std::nullopt;
  }
  if (micro_batches < 1 || !SamplesSuffice(problem.work, plan, micro_batches)) return std::nullopt;
  TablePlan other = plan;
  other.micro_batches = micro_batches;
  other.simulated_s.reset();
  other.prediction = Predictor(problem.hosts, problem.work).Predict(*plan.net, micro_batches, plan.groups);
  if (other.prediction.missing > 0) return std::nullopt;
  return other;
}

void SortPlans(std::vector<TablePlan>* plans) {
  if (plans->empty()) return;
  std::stable_sort(plans->begin(), plans->end(),
                   [](const TablePlan& a, const TablePlan& b) { return ScoreOf(a) < ScoreOf(b); });
  const double margin = ScoreOf(plans->front()) * kSimpler;
  const auto behind =
      std::find_if(plans->begin(), plans->end(), [&](const TablePlan& plan) { return ScoreOf(plan) > margin; });
  const auto fewest = std::min_element(plans->begin(), behind, [](const TablePlan& a, const TablePlan& b) {
    return a.places().size() < b.places().size();
  });
  std::rotate(plans->begin(), fewest, fewest + 1);
}

}  // namespace hp
