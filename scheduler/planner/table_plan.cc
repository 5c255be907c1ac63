#include "scheduler/planner/table_plan.h"

namespace hp {

std::vector<int> TablePlan::places() const {
  std::vector<int> places;
  for (const std::vector<int>* of_kind : {&nodes.conv, &nodes.fc, &nodes.ps}) {
    places.insert(places.end(), of_kind->begin(), of_kind->end());
  }
  return places;
}

TableRequest RequestOf(const PlanProblem& problem, const TablePlan& plan) {
  TableRequest request;
  request.conv = {plan.replicas()};
  request.beside = plan.beside;
  request.micro_batches = plan.micro_batches;
  request.shares = plan.shares;
  request.per_replica = problem.work.per_replica;
  request.precision = problem.precision;
  request.wire_precision = problem.wire_precision;
  const auto add = [&](int place) {
    const HostPlace& at = problem.hosts.places[place];
    request.hosts.push_back(problem.hosts.hosts[at.host].name + (at.device == "cpu" ? "" : "/" + at.device));
  };
  for (const int place : plan.places()) add(place);
  request.ps = plan.servers();
  if (!plan.chain.empty()) {
    request.conv.clear();
    for (const ChainStage& stage : plan.chain) {
      (stage.conv ? request.conv : request.fc).push_back(stage.nodes);
      if (stage.first > 0) request.cut.push_back(problem.net->layer(stage.first).name());
    }
    return request;
  }
  const NetDivision& division = plan.net->division();
  if (division.cut < 0) return request;
  request.fc = {division.shards};
  request.cut = {problem.net->layer(division.cut).name()};
  request.side_classifiers = division.sides;
  request.scattered = division.scattered;
  for (const auto& [layer, split] : division.splits) {
    request.split.push_back(problem.net->layer(layer).name() + ":INPUTS");
  }
  return request;
}

}  // namespace hp
