// A routing table, and the plan of a job by it.
#include "scheduler/plan/routing_table.h"

#include "scheduler/plan/table_check.h"
#include "test/fuzz/fuzz_job.h"

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto net = Parse<caffe::NetParameter>(kJobNet);
  static const auto solver = Parse<caffe::SolverParameter>(kJobSolver);
  RoutingTableConfig config;
  if (!ParseTextProto({reinterpret_cast<const char*>(data), size}, "fuzz", &config).ok()) return 0;
  if (config.stage_size() > 0) (void)CheckNetFit(config, net);
  (void)CheckHosts(config, [](const std::string& host) { return std::vector<std::string>{host}; });
  const auto table = RoutingTable::Create(config, "/job/table");
  if (!table.ok()) return 0;
  if (!CheckTable(table->config(), net, nullptr).empty() || !CheckSolverFit(table->config(), solver).empty()) return 0;
  (void)PlanOf(*table, net, solver).ok();
  return 0;
}
