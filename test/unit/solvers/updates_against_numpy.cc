// Runs the solvers room's updates over given gradients, for updates_against_numpy.py:
//   updates_against_numpy SOLVER.prototxt ITERATIONS COUNT:LR_MULT:DECAY_MULT ... < floats > floats
// In: the weights of all parameters, then for each iteration and each of iter_size batches their gradients.
// Out: for each iteration the rate, then at the end all weights, all first histories and all second ones. All raw
// float32.
#include "backend/cpu/update.h"
#include "proto/solver_type.h"
#include "proto/upgrade/upgrade.h"
#include "scheduler/control/verdict.h"
#include "solvers/check.h"
#include "solvers/lr_policy.h"
#include "solvers/param_store.h"
#include "solvers/update_rule.h"

#include "google/protobuf/text_format.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using hp::ParamStore;

bool Read(std::span<float> values) {
  return fread(values.data(), sizeof(float), values.size(), stdin) == values.size();
}

void Write(std::span<const float> values) { fwrite(values.data(), sizeof(float), values.size(), stdout); }

std::vector<hp::StoredParam> ParseParams(int argc, char** argv, int histories) {
  std::vector<hp::StoredParam> params;
  for (int i = 3; i < argc; ++i) {
    long long count = 0;
    float lr_mult = 0, decay_mult = 0;
    sscanf(argv[i], "%lld:%f:%f", &count, &lr_mult, &decay_mult);
    params.push_back({.layer = "layer" + std::to_string(i),
                      .whole = {count},
                      .lr_mult = lr_mult,
                      .decay_mult = decay_mult,
                      .solver_keeps = histories});
  }
  return params;
}

bool AccumulateGradients(int batches, const ParamStore& store) {
  for (int batch = 0; batch < batches; ++batch) {
    for (int i = 0; i < store.size(); ++i) {
      std::vector<float> gradient(store.count(i));
      if (!Read(gradient)) return false;
      const std::span<float> sum = store.gradient(i);
      for (size_t k = 0; k < sum.size(); ++k) sum[k] = batch == 0 ? gradient[k] : sum[k] + gradient[k];
    }
  }
  return true;
}

void Update(const caffe::SolverParameter& solver, int iteration, float rate, ParamStore* store) {
  const auto squares_of = [](std::span<const float> values) { return hp::SumOfSquares(values.data(), values.size()); };
  double squares = 0;
  for (int i = 0; i < store->size(); ++i) squares += squares_of(store->gradient(i));
  hp::IterationReport report;
  report.set_finite(true);
  report.set_sum_of_squares(squares);
  const auto clip = static_cast<float>(hp::VerdictKeeper(1, solver.clip_gradients()).Add(0, report)->scale());
  for (int i = 0; i < store->size(); ++i) {
    const hp::StoredParam& param = store->param(i);
    if (param.frozen()) continue;
    float own_rate = rate, lr_mult = param.lr_mult;
    if (solver.larc()) {
      own_rate = hp::LarcRate(solver, rate, squares_of(store->gradient(i)), squares_of(store->values(i)), clip);
      lr_mult = 1;
    }
    hp::UpdateParams({hp::UpdateCoefficientsFor(solver, iteration, own_rate, lr_mult, param.decay_mult, clip),
                      store->count(i), store->gradient(i).data(), store->history(i, 1).data(), store->values(i).data(),
                      store->history(i, 2).data()});
    store->MarkUpdated(i);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::ifstream file(argv[1]);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  caffe::SolverParameter solver;
  if (!google::protobuf::TextFormat::ParseFromString(text, &solver) || !hp::UpgradeSolver(&solver).ok()) return 2;
  if (const hp::Status status = hp::CheckSolver(solver); !status.ok()) {
    std::cerr << status << "\n";
    return 2;
  }
  ParamStore store(ParseParams(argc, argv, hp::HistoriesOf(solver)));
  for (int i = 0; i < store.size(); ++i) {
    if (!Read(store.values(i))) return 2;
  }
  const int iterations = std::atoi(argv[2]);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    if (!AccumulateGradients(solver.iter_size(), store)) return 2;
    const float rate = hp::LearningRate(solver, iteration);
    Update(solver, iteration, rate, &store);
    Write({&rate, 1});
  }
  for (int i = 0; i < store.size(); ++i) Write(store.values(i));
  for (int number = 1; number <= hp::HistoriesOf(solver); ++number) {
    for (int i = 0; i < store.size(); ++i) Write(store.history(i, number));
  }
  return 0;
}
