// The text of a net or of a solver, and the plan that a job makes of it. The first byte chooses, and whether samples
// have a label or one for each pixel.
#include "proto/upgrade/upgrade.h"
#include "scheduler/plan/table_check.h"
#include "test/fuzz/fuzz_job.h"

using namespace hp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto table = MakeTable(kTable);
  if (size == 0) return 0;
  caffe::NetParameter net;
  caffe::SolverParameter solver;
  if (data[0] % 2 == 0) {
    static fuzz::MemoryFile file;
    file.Write({reinterpret_cast<const char*>(data + 1), size - 1});
    auto read = ReadNet(file.path());
    if (!read.ok()) return 0;
    net = *std::move(read);
    solver = Parse<caffe::SolverParameter>(kJobSolver);
  } else {
    if (!ParseTextProto({reinterpret_cast<const char*>(data + 1), size - 1}, "fuzz", &solver).ok()) return 0;
    if (!UpgradeSolver(&solver).ok()) return 0;
    net = Parse<caffe::NetParameter>(kJobNet);
  }
  // A job is planned if these find nothing (src/node/job_files.cc).
  if (!CheckSolverFit(table.config(), solver).empty() || !CheckNetFit(table.config(), net).empty()) return 0;
  const Shape pixels = {1, 8, 8};
  (void)PlanOf(table, net, solver, SampleShape(pixels, data[0] & 2 ? pixels : Shape())).ok();
  return 0;
}
