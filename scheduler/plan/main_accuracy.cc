#include "scheduler/plan/main_accuracy.h"

#include "layers/traits/accuracy.h"

#include <algorithm>
#include <string>

namespace hp {
namespace {

/// Index of the printed output `blob`; -1: it is none.
int OutputOf(const std::vector<WholeOutput>& outputs, const std::string& blob) {
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&blob](const WholeOutput& output) { return output.named && output.blob == blob; });
  return found == outputs.end() ? -1 : static_cast<int>(found - outputs.begin());
}

}  // namespace

int MainAccuracy(const JobPlan& job, Phase phase) {
  const NetGraph& graph = job.graph(phase);
  int accuracy = -1;
  const LayerTraits* chosen = nullptr;
  for (auto layer = graph.layers().rbegin(); layer != graph.layers().rend(); ++layer) {
    if (!layer->is_statistic() || GuessesOf(layer->traits) == 0) continue;
    const int output = OutputOf(job.outputs(phase), graph.blobs()[layer->tops[0]].name);
    if (output < 0) continue;
    // By the name of its scores: where shards have the classes, this entry reads what each says of them.
    const bool beside = chosen == nullptr || chosen->param().bottom(0) == layer->traits.param().bottom(0);
    if (!beside || (chosen != nullptr && GuessesOf(layer->traits) >= GuessesOf(*chosen))) continue;
    accuracy = output;
    chosen = &layer->traits;
  }
  return accuracy;
}

}  // namespace hp
