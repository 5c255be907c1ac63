#include "commands/data_fingerprint.h"

#include "base/format.h"

#include <cinttypes>

namespace hp {

StatusOr<std::string> DescribeData(const RoutingTable& table, const std::string& node, const InputOptions& input) {
  HP_ASSIGN_OR_RETURN(const Rank rank, table.FindNode(node));
  HP_ASSIGN_OR_RETURN(const JobFiles files, JobFiles::Read(table, table.node(rank), "", input));
  const JobFacts facts = files.Facts(rank);
  std::string text = Format("data fingerprint %016" PRIx64, facts.dataset_hash);
  for (const DataShape& shape : facts.data_shapes) {
    text += (shape.phase() > 0 ? ", to test " : ", to train ") + std::to_string(shape.records()) + " records";
  }
  return text;
}

}  // namespace hp
