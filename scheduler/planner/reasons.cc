#include "base/format.h"
#include "scheduler/plan/net_tail.h"
#include "scheduler/planner/planner.h"

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

constexpr size_t kMostGroups = 16;  // lines of the table
constexpr size_t kNextBest = 5;     // other plans

std::string Seconds(double seconds) {
  if (seconds >= 1) return Format("%.2f s", seconds);
  return Format("%.1f ms", 1e3 * seconds);
}

std::string Bytes(double bytes) {
  if (bytes < 1e5) return Format("%.1f kB", bytes / 1e3);
  return Format("%.1f MB", bytes / 1e6);
}

/// Images in a second, with three digits or more.
std::string Rate(const TablePlan& plan) {
  const double rate = plan.samples_per_second();
  return Format("%.*f images/s", rate < 1 ? 4 : rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
}

std::string Count(int count, const char* what) { return Format("%d %s%s", count, what, count == 1 ? "" : "s"); }

/// "fc6 by INPUTS, fc7 by OUTPUTS": all InnerProducts of the FC stage.
std::string SplitsOf(const PlanProblem& problem, const NetDivision& division) {
  const LayerTypes& types = LayerTypes::BuiltIn();
  std::string text;
  std::vector<int> layers;
  if (division.sides) layers = SideClassifiers(*problem.net, division.cut);
  for (int i = division.cut; i < problem.net->layer_size(); ++i) layers.push_back(i);
  for (const int i : layers) {
    if (!types.SplitOutputs(problem.net->layer(i))) continue;
    const bool inputs = std::any_of(division.splits.begin(), division.splits.end(),
                                    [i](const auto& split) { return split.first == i; });
    text += (text.empty() ? "" : ", ") + problem.net->layer(i).name() + (inputs ? " by INPUTS" : " by OUTPUTS");
  }
  return text;
}

std::string MicroBatches(const TablePlan& plan) {
  return Format(", %d micro-batch%s", plan.micro_batches, plan.micro_batches == 1 ? "" : "es");
}

/// "stages from data on 2 conv nodes, conv4_1 on 1 conv node, fc6 on 2 shards".
std::string ChainTitle(const PlanProblem& problem, const TablePlan& plan) {
  std::string text;
  for (const ChainStage& stage : plan.chain) {
    text += text.empty() ? "stages from " : ", ";
    text += problem.net->layer(stage.first).name() + " on " + Count(stage.nodes, stage.conv ? "conv node" : "shard");
  }
  return text + MicroBatches(plan);
}

/// One line that says which table it is.
std::string Title(const PlanProblem& problem, const TablePlan& plan) {
  if (!plan.chain.empty()) return ChainTitle(problem, plan);
  if (plan.one_node()) return "one machine";
  const NetDivision& division = plan.net->division();
  const std::string servers = plan.servers() > 0 ? " with " + Count(plan.servers(), "parameter server") : "";
  if (plan.shards() == 0) {
    return (servers.empty() ? "plain data parallelism over " : "data parallelism over ") +
           Count(plan.replicas(), "node") + servers +
           (plan.micro_batches > 1 ? Format(", %d micro-batches", plan.micro_batches) : "");
  }
  std::string text = Count(plan.replicas(), "conv node") + " + " + Count(plan.shards(), "shard");
  if (plan.beside && plan.shards() <= plan.replicas()) text += " beside them";
  if (plan.beside && plan.shards() > plan.replicas()) text += Format(" (%d beside conv nodes)", plan.replicas());
  text += " from " + problem.net->layer(division.cut).name() + (division.sides ? " and of side classifiers" : "");
  if (plan.shards() > 1) {
    text += " (" + SplitsOf(problem, division) + (division.scattered ? "; scattered" : "") + ")";
  }
  return text + servers + MicroBatches(plan);
}

std::string Speed(const TablePlan& plan) {
  return Rate(plan) + Format(" (%s for %.0f samples)", Seconds(plan.seconds()).c_str(), plan.prediction.samples);
}

std::string RoleOf(const HostGroup& group) {
  if (group.servers > 0) return group.servers == 1 ? "server" : Format("%d servers", group.servers);
  std::string role;
  if (group.replicas > 0) role = group.replicas == 1 ? "conv" : Format("%d conv", group.replicas);
  if (group.shards == 0) return role;
  const std::string shards = group.shards == 1 ? "shard" : Format("%d shards", group.shards);
  return role.empty() ? shards : role + " + " + shards;
}

const char* NameOf(Prediction::Resource resource) {
  switch (resource) {
    case Prediction::kCompute:
      return "computes";
    case Prediction::kSend:
      return "sends";
    case Prediction::kReceive:
      return "receives";
  }
  return "";
}

const HostInfo& HostOf(const PlanProblem& problem, const HostGroup& group) {
  return problem.hosts.hosts[problem.hosts.places[group.first].host];
}

std::string Groups(const PlanProblem& problem, const TablePlan& plan) {
  std::string text = Format("  %-28s %-14s %9s %11s %5s %11s %11s %11s\n", "hosts", "each runs", "samples", "computes",
                            "busy", "sends", "receives", "memory");
  const size_t shown = plan.groups.size() <= kMostGroups ? plan.groups.size() : kMostGroups - 1;
  for (size_t g = 0; g < shown; ++g) {
    const HostGroup& group = plan.groups[g];
    const HostLoad& load = plan.prediction.loads[g];
    const std::string name = HostOf(problem, group).name;
    const std::string hosts = group.hosts == 1 ? name : Format("%d like %s", group.hosts, name.c_str());
    const std::string samples = group.replicas > 0 ? Format("%.0f", group.rows) : "-";
    text += Format("  %-28s %-14s %9s %11s %4.0f%% %11s %11s %11s\n", hosts.c_str(), RoleOf(group).c_str(),
                   samples.c_str(), Seconds(load.compute_s()).c_str(), 100 * load.compute_s() / plan.seconds(),
                   Bytes(load.out).c_str(), Bytes(load.in).c_str(), Bytes(load.memory).c_str());
  }
  return text;
}

std::string Bottleneck(const PlanProblem& problem, const TablePlan& plan) {
  const Prediction& prediction = plan.prediction;
  const HostGroup& group = plan.groups[prediction.busiest];
  const HostInfo& host = HostOf(problem, group);
  const HostLoad& load = prediction.loads[prediction.busiest];
  std::string text = "bottleneck: host " + host.name + " " + NameOf(prediction.resource);
  if (prediction.resource == Prediction::kCompute) {
    text += " for " + Seconds(prediction.limit);
  } else {
    const double bytes = prediction.resource == Prediction::kSend ? load.out : load.in;
    text += " " + Bytes(bytes) + Format(" at %.3g Gbit/s", host.link_bytes_per_second * 8e-9) + ", " +
            Seconds(prediction.limit);
  }
  const double rest = prediction.seconds - prediction.limit;
  text += Format("\nlimit max(compute, bytes / bandwidth): %s; %s %s is %.2f times that",
                 Seconds(prediction.limit).c_str(), plan.simulated_s ? "simulated" : "predicted",
                 Seconds(plan.seconds()).c_str(), plan.seconds() / prediction.limit);
  if (plan.simulated_s) return text + "\n";  // the formulas' reasons are of the formulas' time
  if (rest < 0.005 * prediction.limit) return text + "\n";
  const double exchange = std::min(rest, prediction.exchange_s);
  if (exchange > 0)
    text += ": " + Seconds(exchange) + " for what the backward pass does not hide of the exchange of gradients";
  if (rest - exchange > 0.005 * prediction.limit) {
    text += (exchange > 0 ? ", " : ": ") + Seconds(rest - exchange) + " for filling and draining the pipeline";
  }
  return text + "\n";
}

std::string Reason(const PlanProblem& problem, const PlanChoice& choice) {
  const TablePlan& best = choice.plans[0];
  const bool alone = problem.hosts.places.size() == 1;
  if (best.one_node()) {
    if (alone) return "One machine is best: there is no other.\n";
    const TablePlan* const next = choice.plans.size() > 1 ? &choice.plans[1] : nullptr;
    if (next == nullptr) return "One machine is best: no table for more fits.\n";
    const Prediction& prediction = next->prediction;
    const HostLoad& load = prediction.loads[prediction.busiest];
    return "One machine is best: the best table for more hosts, " + Title(problem, *next) + ", sends " +
           Bytes(std::max(load.in, load.out)) + " over a link in each iteration and takes " +
           Seconds(next->seconds() * best.prediction.samples / prediction.samples) + " instead of " +
           Seconds(best.seconds()) + ".\n";
  }
  if (best.data_parallel()) {
    return "Plain data parallelism is best: the gradients of all parameters, " + Bytes(best.net->traffic().exchanged) +
           ", are summed up while the backward pass runs, and shards of FC "
           "layers would gain less than they cost.\n";
  }
  return "";
}

}  // namespace

std::string DescribeChoice(const PlanProblem& problem, const PlanChoice& choice) {
  const TablePlan& best = choice.plans[0];
  std::string text = "plan: " + Title(problem, best) + "\n" + (best.simulated_s ? "simulated: " : "predicted: ") +
                     Speed(best) + "\n" + Groups(problem, best) + Bottleneck(problem, best) + Reason(problem, choice);
  const auto against = [&](const std::optional<TablePlan>& other, const char* what) {
    if (!other || (best.one_node() && other->one_node()) || (best.data_parallel() && other->data_parallel())) return;
    text += Format("%s: %s: %.2f times as fast\n", what, Speed(*other).c_str(),
                   best.samples_per_second() / other->samples_per_second());
  };
  if (choice.one_node) {
    against(choice.one_node, "against one machine");
  } else {
    text += "One machine can't hold the net.\n";
  }
  against(choice.data_parallel, "against plain data parallelism");
  if (choice.plans.size() > 1) text += "next best:\n";
  for (size_t i = 1; i < std::min(choice.plans.size(), kNextBest + 1); ++i) {
    const TablePlan& plan = choice.plans[i];
    text += Format("  %zu. ", i) + Rate(plan) + ": " + Title(problem, plan) + "\n";
  }
  return text;
}

}  // namespace hp
