// Order: solver, net, table beside the net, layers, databases, snapshot, loss scaler; the first error ends it, but
// faults of the table come all at once, since a person corrects them by hand. The snapshot is not compared with the
// shapes of the net here: an FC node learns the shape of a sample only from the other nodes' hellos.
#include "node/job_files.h"

#include "base/cores.h"
#include "base/format.h"
#include "base/host.h"
#include "base/program.h"
#include "base/words.h"
#include "checkpoint/summed_file.h"
#include "layers/traits/net_warnings.h"
#include "node/snapshot_prefix.h"
#include "proto/hash.h"
#include "proto/net_filter.h"
#include "proto/place.h"
#include "proto/text.h"
#include "scheduler/plan/table_check.h"
#include "scheduler/plan/test_params.h"
#include "solvers/check.h"
#include "solvers/lr_policy.h"

#include "devices/devices.h"
#include "glog/logging.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>

namespace hp {
namespace {

DataShape ShapeMessage(const Input& input, Phase phase) {
  DataShape shape;
  shape.set_phase(phase.index());
  const SampleShape& sample = input.sample_shape();
  for (const int64_t dim : sample.data.dims()) shape.add_data(static_cast<int>(dim));
  for (const int64_t dim : sample.label.dims()) shape.add_label(static_cast<int>(dim));
  for (const Shape& other : sample.others) {
    DataShape::Other* const added = shape.add_other();
    for (const int64_t dim : other.dims()) added->add_dim(static_cast<int>(dim));
  }
  shape.set_records(input.records());
  return shape;
}

Status LoadFiles(const RoutingTable& table, const LayerTypes& types, JobFiles* files) {
  HP_ASSIGN_OR_RETURN(files->solver, ReadSolver(table.solver_path()));
  HP_RETURN_IF_ERROR(AtFields(CheckSolver(files->solver), table.solver_path()));
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(files->solver));
  files->net = std::make_shared<const caffe::NetParameter>(std::move(net));
  std::vector<std::string> faults = CheckTable(table.config(), *files->net, CanonicalAddresses, types);
  for (const std::string& fault : CheckSolverFit(table.config(), files->solver)) faults.push_back(fault);
  if (!faults.empty()) {
    std::string all;
    for (const std::string& fault : faults) all += (all.empty() ? "" : "\n") + fault;
    return InvalidArgument("%s: %s", table.path().c_str(), all.c_str());
  }
  HP_RETURN_IF_ERROR(CheckPhases(files->net, files->solver.test_iter_size(), types));
  LOG(INFO) << "Solving " << files->net->name();
  LOG(INFO) << "Learning Rate Policy: " << files->solver.lr_policy();
  return OkStatus();
}

Status OpenInputs(const NodeInfo& node, const InputOptions& options, const LayerTypes& types, JobFiles* files) {
  const auto reads = [](const StagePart& part) { return part.stage == 0; };
  if (std::none_of(node.parts.begin(), node.parts.end(), reads)) return OkStatus();
  HP_ASSIGN_OR_RETURN(files->inputs.train, OpenTraining(*files->net, types, options));
  HP_ASSIGN_OR_RETURN(files->inputs.tests, OpenTests(*files->net, files->solver.test_iter_size(), types, options));
  return OkStatus();
}

// Caffe's field chooses between its two backends; here the table says what a node computes on.
void LogSolverMode(const RoutingTable& table, const NodeInfo& node, const caffe::SolverParameter& solver) {
  const bool gpu = solver.has_solver_mode() && solver.solver_mode() == caffe::SolverParameter::GPU;
  if (!gpu || node.device != "cpu") return;
  LOG(INFO) << "node " << node.name << ": solver_mode: GPU in " << table.solver_path()
            << " has no effect: its entry in " << table.path() << " says device \"cpu\"";
}

// Fields that are read, and do less than their author may expect. The first node says it for all.
void LogFieldsWithoutEffect(const RoutingTable& table, const NodeInfo& node, const LayerTypes& types,
                            const JobFiles& files) {
  if (node.rank != 0) return;
  for (const std::string& line : SolverWarnings(files.solver)) LOG(WARNING) << table.solver_path() << ": " << line;
  for (const std::string& line : NetWarnings(*files.net, types)) LOG(WARNING) << line;
}

void Append(const std::string& difference, std::string* all) { *all += (all->empty() ? "" : "; ") + difference; }

// What else than the threads of the table this node does otherwise than when the snapshot was written.
void CompareSelf(const SnapshotNode& saved, const std::string& name, std::string* differences) {
  if (saved.program() != 0 && saved.program() != ProgramId())
    Append(Format("another program on node \"%s\"", name.c_str()), differences);
  if (!saved.instruction_set().empty() && saved.instruction_set() != InstructionSet()) {
    Append(Format("node \"%s\" computing with %s, now with %s", name.c_str(), saved.instruction_set().c_str(),
                  InstructionSet().c_str()),
           differences);
  }
}

// The number of threads decides the order of sums: a job that goes on under its own division goes on with its own,
// unless its table asks for others. What keeps a resumed job from the same bits is logged, and no fault.
Status TakeSavedThreads(const RoutingTable& table, const SnapshotManifest& manifest, Rank rank, JobFiles* files) {
  std::string differences;
  if (manifest.division_hash() != table.division_hash() || manifest.node_size() != table.size()) {
    differences = "a different division of the work, or another `precision` in its table";
  } else {
    for (const NodeInfo& node : table.nodes()) {
      const int saved = manifest.node(node.rank).threads();
      if (saved < 1) {
        return DataLoss("%s: its manifest has no thread count for node %d", files->resumed.c_str(), node.rank);
      }
      files->saved_threads.push_back(node.threads == 0 ? saved : node.threads);
      if (node.threads == 0 || node.threads == saved) continue;
      Append(Format("%d thread(s) of node \"%s\", which the table gives %d", saved, node.name.c_str(), node.threads),
             &differences);
    }
    CompareSelf(manifest.node(rank), table.node(rank).name, &differences);
  }
  if (!differences.empty() && manifest.net_hash() == NetHash(*files->net)) {
    LOG(INFO) << files->resumed << " was written with " << differences
              << ": results match up to rounding, not bit for bit";
  }
  return OkStatus();
}

// From `initial`, or as the snapshot left it, if its job scaled losses.
Status MakeLossScaler(const RoutingTable& table, const SnapshotManifest* manifest, JobFiles* files) {
  if (!table.scales_loss()) return OkStatus();
  files->loss_scaler.emplace(table.config().loss_scaling());
  if (manifest == nullptr || !manifest->has_loss_scaling()) return OkStatus();
  return files->loss_scaler->Restore(manifest->loss_scaling()).Prepend(files->resumed + ": its manifest");
}

// What was ordered before the snapshot.
Status TakeRates(const SnapshotManifest& manifest, JobFiles* files) {
  for (const RateChange& change : manifest.rate_change()) {
    if (!std::isfinite(change.base_lr()) || change.base_lr() <= 0 || change.iteration() < 0) {
      return DataLoss("%s: its manifest has base_lr %g from iteration %lld on", files->resumed.c_str(),
                      static_cast<double>(change.base_lr()), static_cast<long long>(change.iteration()));
    }
    files->rates->Change(change.iteration(), change.base_lr());
    LOG(INFO) << "Iteration " << change.iteration() << ", base_lr = " << Format("%g", change.base_lr())
              << " from there on, as ordered before the snapshot";
  }
  return OkStatus();
}

// Nobody would ever end a job that begins behind its end.
Status CheckStart(const JobFiles& files) {
  if (files.start_clock <= files.solver.max_iter()) return OkStatus();
  return InvalidArgument("%s is of iteration %lld, behind max_iter (%d): raise max_iter, or resume an earlier snapshot",
                         files.resumed.c_str(), static_cast<long long>(files.start_clock), files.solver.max_iter());
}

// A job whose table says AUTO goes on as it was decided at its start, whatever its nodes can do now.
Status TakeSavedPrecision(const RoutingTable& table, const SnapshotManifest& manifest, JobFiles* files) {
  if (table.config().precision() != RoutingTableConfig::AUTO || !manifest.has_precision()) return OkStatus();
  RoutingTableConfig::Precision precision = RoutingTableConfig::AUTO;
  const bool known = RoutingTableConfig::Precision_Parse(manifest.precision(), &precision);
  if (!known || precision == RoutingTableConfig::AUTO) {
    return DataLoss("%s: its manifest has precision \"%s\"", files->resumed.c_str(),
                    Printable(manifest.precision(), 32).c_str());
  }
  // A snapshot of a table that said something else decides nothing.
  if (precision == RoutingTableConfig::BF16 || precision == RoutingTableConfig::FP32) {
    files->resumed_precision = precision;
  }
  return OkStatus();
}

// What the job takes over from a snapshot beside its parameters.
Status TakeManifest(const RoutingTable& table, const SnapshotManifest& manifest, Rank rank, JobFiles* files) {
  files->resumed_seed = manifest.random_seed();
  HP_RETURN_IF_ERROR(TakeSavedPrecision(table, manifest, files));
  if (manifest.has_run()) files->run.set_id(manifest.run().id());
  HP_RETURN_IF_ERROR(TakeSavedThreads(table, manifest, rank, files));
  HP_RETURN_IF_ERROR(TakeRates(manifest, files));
  return MakeLossScaler(table, &manifest, files);
}

/// A person may name a snapshot and change a batch, a dropout or a test; names and shapes are compared when they are
/// known. Of what nobody named FindNewestComplete takes those of this very net alone.
void WarnOfOtherNet(const JobFiles& files) {
  const std::optional<SnapshotManifest>& manifest = files.snapshot->manifest;
  if (!manifest || manifest->net_hash() == NetHash(*files.net)) return;
  LOG(WARNING) << files.resumed << " is of another net than \"" << files.net->name()
               << "\" as it is now: its parameters are taken by the names of their layers"
               << (files.snapshot->parts ? "" : ", its histories in their order");
}

/// In Caffe the steps that a snapshot had taken count, whatever the solver says now.
void WarnOfOtherSteps(const JobFiles& files) {
  if (files.solver.lr_policy() != "multistep") return;
  const int iteration = static_cast<int>(files.start_clock);
  const int saved = files.snapshot->current_step, now = LearningRateStep(files.solver, iteration);
  // Caffe's is that of the update before.
  if (saved == now || saved == LearningRateStep(files.solver, std::max(iteration - 1, 0))) return;
  LOG(WARNING) << files.resumed << " had taken " << saved << " steps of its rate; by this solver's stepvalue it is "
               << now << ", and the rate goes by that";
}

Status LoadSnapshot(const RoutingTable& table, const std::string& resume, const SnapshotManifest* checked, Rank rank,
                    JobFiles* files) {
  // It is fitted to the net in SetInitialParams: the shapes follow from the input's, which an FC node hears from
  // others.
  HP_ASSIGN_OR_RETURN(LoadedSnapshot snapshot, ReadSnapshot(resume, checked));
  files->resumed = resume;
  files->snapshot = std::make_unique<LoadedSnapshot>(std::move(snapshot));
  files->start_clock = files->snapshot->iteration;
  HP_RETURN_IF_ERROR(CheckStart(*files));
  if (!files->snapshot->manifest) {
    HP_ASSIGN_OR_RETURN(const FileSum sum, SumFile(files->snapshot->state_path));
    files->snapshot_hash = sum.xxh64;
    return MakeLossScaler(table, nullptr, files);
  }
  files->snapshot_hash = HashMessage(*files->snapshot->manifest);  // it has the sums of the files
  return TakeManifest(table, *files->snapshot->manifest, rank, files);
}

// Looks for what this node can offer the others.
void FindLatest(JobFiles* files) {
  const std::string prefix = files->solver.snapshot_prefix();
  ResumeLatest& known = files->resume_latest.emplace();
  if (const auto run = RunOfLatestStart(prefix)) *known.mutable_started_run() = *run;
  files->found = FindNewestComplete(prefix, NetHash(*files->net), known.started_run());
  if (!files->found) return;
  known.set_snapshot_hash(HashMessage(files->found->manifest));
  SnapshotManifest& manifest = *known.mutable_snapshot();
  manifest = files->found->manifest;
  for (SnapshotNode& node : *manifest.mutable_node()) node.clear_name();
  for (const auto clear : {&SnapshotManifest::clear_model, &SnapshotManifest::clear_state,
                           &SnapshotManifest::clear_part, &SnapshotManifest::clear_blob}) {
    (manifest.*clear)();
  }
}

// One that begins now, or begins anew from the snapshot that it is resumed from.
RunMark NewRun() {
  std::random_device random;
  RunMark run;
  run.set_id((uint64_t{random()} << 32 | random()) | 1);  // 0: none
  run.set_began_us(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  return run;
}

}  // namespace

StatusOr<JobFiles> JobFiles::Read(const RoutingTable& table, const NodeInfo& node, const std::string& resume,
                                  const InputOptions& input, const LayerTypes& types,
                                  const std::string& snapshot_prefix) {
  JobFiles files;
  files.run = NewRun();
  HP_RETURN_IF_ERROR(LoadFiles(table, types, &files));
  if (!snapshot_prefix.empty()) files.solver.set_snapshot_prefix(snapshot_prefix);
  LogSolverMode(table, node, files.solver);
  LogFieldsWithoutEffect(table, node, types, files);
  // Hours later the last snapshot would fail. The first node writes it.
  const std::string solver_path = snapshot_prefix.empty() ? table.solver_path() : "";
  if (node.rank == 0) HP_RETURN_IF_ERROR(CheckSnapshotPrefix(files.solver, solver_path));
  HP_RETURN_IF_ERROR(OpenInputs(node, input, types, &files));
  files.rates = std::make_shared<LearningRates>(files.solver);
  if (resume == kResumeLatest) FindLatest(&files);
  if (node.rank == 0 && table.size() > 1) {
    // Without it others go by what they see. A folder that is full costs snapshots, not the job, unless they are
    // copied.
    StatusOr<std::unique_ptr<FolderNonce>> nonce = FolderNonce::Create(files.solver.snapshot_prefix());
    if (!nonce.ok() && table.snapshot_copier() >= 0) return nonce.status();
    if (nonce.ok()) files.nonce = *std::move(nonce);
  }
  HP_RETURN_IF_ERROR(resume.empty() || resume == kResumeLatest
                         ? MakeLossScaler(table, nullptr, &files)
                         : LoadSnapshot(table, resume, nullptr, node.rank, &files));
  if (files.snapshot && files.snapshot->manifest) {
    files.run.set_resumed_from(files.start_clock);
    files.run.set_resumed_began_us(files.snapshot->manifest->run().began_us());
  }
  if (node.rank == 0 && files.snapshot) {
    WarnOfOtherNet(files);
    WarnOfOtherSteps(files);
  }
  return files;
}

void JobFiles::TakeWeights(const std::string& flag) {
  weights = flag.empty() ? WeightsOf(solver) : SplitList(flag);
  if (!resumed.empty()) return;  // not looked at
  uint64_t hash = 0;
  for (const std::string& file : weights) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) return;
    const StatusOr<FileSum> sum = SumFile(file);
    if (!sum.ok()) return;
    hash = hash * 31 + sum->xxh64;
  }
  weights_hash = hash;
}

Status JobFiles::Adopt(const RoutingTable& table, const LatestSnapshot& latest, Rank rank) {
  if (latest.Has(rank)) {
    HP_RETURN_IF_ERROR(LoadSnapshot(table, found->state_path, &found->manifest, rank, this));
    if (latest.holders.front() == rank) WarnOfOtherSteps(*this);
  } else {
    start_clock = latest.manifest.iteration();
    resumed = Format("the snapshot of node \"%s\"", table.node(latest.GiverOf(rank)).name.c_str());
    HP_RETURN_IF_ERROR(CheckStart(*this));
    HP_RETURN_IF_ERROR(TakeManifest(table, latest.manifest, rank, this));
  }
  run = latest.run;
  return OkStatus();
}

JobFacts JobFiles::Facts(Rank rank) const {
  JobFacts facts;
  facts.rank = rank;
  facts.net_hash = NetHash(*net);
  facts.solver_hash = SolverHash(solver);
  facts.start_clock = start_clock;
  facts.snapshot_hash = snapshot_hash;
  facts.weights_hash = weights_hash;
  facts.random_seed =
      resumed_seed.value_or(std::max<int64_t>(solver.random_seed(), -1));  // as Caffe, any below 0 is none
  facts.resume_latest = resume_latest;
  if (inputs.train) {
    facts.dataset_hash = inputs.train->fingerprint();
    facts.data_shapes.push_back(ShapeMessage(*inputs.train, caffe::TRAIN));
  }
  uint64_t factor = 31;
  for (int i = 0; i < static_cast<int>(inputs.tests.size()); ++i) {
    const Input& test = *inputs.tests[i];
    facts.dataset_hash ^= test.fingerprint() * factor;
    factor *= 31;
    facts.data_shapes.push_back(ShapeMessage(test, Phase::OfTest(i)));
  }
  facts.core_pools = CorePools();
  facts.host_id = HostId();
  facts.program = ProgramId();
  facts.run = run;
  if (nonce) facts.folder_nonce = nonce->number();
  facts.instruction_set = InstructionSet();
  return facts;
}

}  // namespace hp
