// Open and Run make the parts one by one, each step a method; a step that fails ends the node through Shutdown, as
// does everything that fails later. Peers need not be in the same step: events that arrive before Train wait in the
// Gate, except those of the bootstrap, the failure detector and the rendezvous, which the steps themselves wait for.
// From Train on there is no control flow here any more: threads of the parts report to each other, through the methods
// of node_events.cc, and the main thread waits in Shutdown::WaitForWork. The step that plans and builds the model is in
// node_model.cc, those of snapshots are in node_snapshots.cc. Stop takes the threads down in an order in which none
// calls into a part that is gone.
#include "node/node.h"

#include "base/format.h"
#include "base/out_of_memory.h"
#include "checkpoint/incarnation.h"
#include "engine/compute_threads.h"
#include "engine/initial_params.h"
#include "proto/place.h"
#include "proto/text.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

constexpr int kLeaveTimeoutMs = 600'000;  // the first node may still write a large snapshot

}  // namespace

Node::Node(NodeOptions options)
    : options_(std::move(options)),
      table_(*options_.table),
      info_(table_.node(options_.rank)),
      transport_(options_.transport.get()),
      shutdown_({.node = info_.name,
                 .leave = options_.leave,
                 .abort = [this](const Status& status) { Abort(status); },
                 .describe = [this] { return pipeline_->Describe(); }}),
      requests_(table_.staleness()),
      stop_budget_(info_.name, options_.stop_within_s, options_.clock) {}

Node::~Node() { Stop(); }

// Threads first: nobody may call into a part that is gone.
void Node::Stop() {
  Abort(Cancelled("the node is shutting down"));
  executor_.reset();
  if (failure_detector_) failure_detector_->Stop();  // the transport still reports to it
  files_.inputs.Stop();
  transport_->Stop();
  snapshotter_.reset();  // until then the transport tells it of others' grants, and others write into its memory
}

void Node::Abort(const Status& status) {
  if (rendezvous_) rendezvous_->Abort(status);
  if (transfer_) transfer_->Abort(status);
  exchanges_.Abort(status);
  if (!training_) return;
  pipeline_->Abort();                             // made before that, by the main thread, as is the next
  if (snapshotter_) snapshotter_->Abort(status);  // not after Stop
}

bool Node::RequestStop() {
  requests_.RequestStop();
  if (training_) return true;
  if (!connecting_) return false;
  shutdown_.Fail(Stopped("stopped before training began"));
  return true;
}

Status Node::Open() {
  const Status status = OrOutOfMemory("reading the job's files", [this] { return ReadFiles(); });
  if (!status.ok()) LOG(ERROR) << "node " << info_.name << ": " << status.message();
  return status;
}

Status Node::Run() {
  for (auto step :
       {&Node::Connect, &Node::ChooseSnapshot, &Node::BuildModel, &Node::InitParams, &Node::ConnectExchanges,
        &Node::PrepareInputs, &Node::MakeCompute, &Node::MakeSnapshotter, &Node::Train}) {
    const Status status = AtLayer(OrOutOfMemory("starting", [this, step] { return (this->*step)(); }), *files_.net);
    if (status.ok()) continue;
    shutdown_.Fail(status);
    shutdown_.WaitForLeave();
    return status;
  }
  Status status = shutdown_.WaitForWork();
  if (status.ok()) status = OrOutOfMemory("ending the job", [this] { return Finish(); });
  if (!status.ok()) shutdown_.WaitForLeave();
  return status;
}

// --- Assembly

Status Node::ReadFiles() {
  HP_ASSIGN_OR_RETURN(files_,
                      JobFiles::Read(table_, info_, options_.resume, {options_.cache_dir, options_.max_bad_records},
                                     *options_.layer_types, options_.snapshot_prefix));
  files_.TakeWeights(options_.weights);
  if (!options_.run_name.name.empty()) files_.run.set_name(options_.run_name.name);
  if (options_.resume == kResumeLatest) {
    HP_RETURN_IF_ERROR(CheckGoesOn(files_.solver.snapshot_prefix(), files_.run, options_.run_name.restarted));
  }
  if (!table_.ReplicasByNccl(options_.rank).empty()) PrepareSumsOnGpus();
  if (table_.times_engines(options_.rank)) {
    HP_ASSIGN_OR_RETURN(engines_, EngineFile::Open(EngineFile::PathOf(files_.solver.snapshot_prefix(), options_.rank)));
  }
  HP_ASSIGN_OR_RETURN(device_, options_.open_device(info_.device, table_.config().precision(), engines_.get()));
  const bool may_copy = device_.device->is_host() && !device_.copier && !options_.one_process;
  if (may_copy && !CopyPeers(table_, options_.rank).empty()) ShareHostMemory(&device_);
  std::vector<std::string> names;
  for (const NodeInfo& node : table_.nodes()) names.push_back(node.name);
  const std::string folder =
      options_.trace_folder.empty() ? files_.solver.snapshot_prefix() + "_trace" : options_.trace_folder;
  trace_ = std::make_unique<NodeTrace>(folder, std::move(names), options_.rank, Clock::Real());
  if (!options_.trace_folder.empty()) HP_RETURN_IF_ERROR(trace_->Begin());
  return OkStatus();
}

int Node::ThreadsOf(Rank rank) const {
  return files_.saved_threads.empty() ? bootstrap_->handshake()->ThreadsOf(rank) : files_.saved_threads.at(rank);
}

// A team that is smaller than asked for adds up in another order.
Status Node::TakeThreads(int threads) const {
  return TakeComputeThreads(threads, Format("node \"%s\" needs %d threads%s", info_.name.c_str(), threads,
                                            files_.saved_threads.empty() ? "" : ", as before the snapshot"));
}

Status Node::Connect() {
  const auto on_failure = [this](const Status& status) { shutdown_.Fail(status); };
  copies_ = MakeCopyTransport(
      table_, options_.rank, device_.copier.get(), options_.least_host_copy, options_.transport.get(),
      {.on_settled = [this](Rank peer) { bootstrap_->OnRouteSettled(peer); }, .on_failure = on_failure});
  if (copies_) transport_ = copies_.get();
  transport_ = (node_transport_ = std::make_unique<NodeTransport>(transport_, trace_.get(), on_failure)).get();
  rendezvous_ = std::make_unique<NodeRendezvous>(transport_, options_.rank, table_.ReplicasByNccl(options_.rank));
  transfer_ = std::make_unique<SnapshotTransfer>(transport_, options_.rank);
  JobFacts facts = files_.Facts(options_.rank);
  facts.lacks_bfloat16 = !device_.lacks_bfloat16.empty();
  bootstrap_ = std::make_unique<JobBootstrap>(table_, facts);
  failure_detector_ =
      std::make_unique<FailureDetector>(table_, options_.rank, transport_, options_.clock,
                                        [this](const Status& status, bool said) { shutdown_.OnLost(status, said); });
  shutdown_.Begin(bootstrap_.get(), failure_detector_.get());
  connecting_ = true;
  if (options_.rank == 0) MakeDesk();
  Inbox::Early early;
  early.table = &table_;
  early.self = options_.rank;
  early.transport = transport_;
  early.gate = &gate_;
  early.failure_detector = failure_detector_.get();
  early.rendezvous = rendezvous_.get();
  early.pulls = pulls_.get();
  early.desk = desk_.get();
  inbox_ = std::make_unique<Inbox>(early);
  HP_RETURN_IF_ERROR(transport_->Start(this, bootstrap_->handshake()));
  failure_detector_->Start();
  return bootstrap_->Wait();
}

// What clients of the job speak to.
void Node::MakeDesk() {
  pulls_ = std::make_unique<PullServer>(transport_);
  board_ = std::make_unique<StatusBoard>(table_, options_.clock);
  desk_ = std::make_unique<ClientDesk>(ClientDesk::Options{
      .transport = transport_,
      .requests = &requests_,
      .status = [this] { return board_->Describe(requests_.stop_at()); },
      .training = [this] { return training_.load(); },
      .stop = [this] { RequestStop(); },
      .address = [this](Rank client) { return bootstrap_->handshake()->ClientAddress(client); },
  });
}

Status Node::InitParams() {
  HP_ASSIGN_OR_RETURN(params_, ParamStore::Create(device_.device.get(), model_->stored_params(),
                                                  {table_.staleness() + 1, files_.start_clock}));
  const InitialParams from{seed_, files_.snapshot.get(), files_.resumed, files_.weights};
  HP_RETURN_IF_ERROR(SetInitialParams(*model_, from, params_.get()));
  if (latest_) HP_RETURN_IF_ERROR(ShareSnapshot());
  if (!files_.resumed.empty())
    LOG(INFO) << "resuming at iteration " << files_.start_clock << " from " << files_.resumed;
  files_.snapshot.reset();
  return OkStatus();
}

Status Node::ConnectExchanges() {
  NodeExchanges::Options options;
  options.model = model_.get();
  options.params = params_.get();
  options.device = &device_;
  options.rendezvous = rendezvous_.get();
  options.transport = transport_;
  options.start_clock = files_.start_clock;
  options.callbacks.on_exchanged = [this](auto... args) { pipeline_->OnExchanged(args...); };
  options.callbacks.on_values = [this](auto... args) { pipeline_->OnValues(args...); };
  options.callbacks.on_failure = [this](const Status& status) { OnExchangeFailed(status); };
  return exchanges_.Connect(options);
}

Status Node::PrepareInputs() {
  Input::Callbacks callbacks;
  callbacks.on_labels = [this](auto... args) { OnLabels(args...); };
  callbacks.on_ready = [this] { gate_.Run([this] { pipeline_->OnInputs(); }); };
  callbacks.on_error = [this](const Status& status) { shutdown_.Fail(status); };
  // Losses that wait for the labels of a whole batch need those of every batch that may be under way.
  Input::ReadAhead ahead{.ring = memory_.ring(), .threads = options_.reader_threads, .raw = !device_.device->is_host()};
  ahead.encoded = ahead.raw && table_.decodes_on_gpus();
  ahead.batches = table_.staleness() * files_.solver.iter_size() + 1;
  // What a device's tasks read counts as in use until they are done, and those of two batches may follow them in its
  // queues. Not beyond the next iteration, whose labels are all that other nodes expect.
  if (!device_.device->is_host()) ahead.batches = std::max(ahead.batches, std::min(files_.solver.iter_size(), 2));
  return files_.inputs.Prepare(model_->schedule(), info_.IndexIn(0), seed_, ahead, device_.device.get(), callbacks);
}

// On a device with memory of its own, tensors of another node pass through the host unless the transport reaches that
// memory: by a copy from GPU to GPU, or over RDMA.
Status Node::MakeCompute() {
  Compute::Options options;
  options.pool_size = memory_.pool_size;
  options.device = device_.device.get();
  options.backend = device_.backend.get();
  options.params = params_.get();
  options.exchanges = exchanges_.by_stage();
  options.server = exchanges_.server();
  options.labels = labels_.get();
  options.inputs = &files_.inputs;
  options.on_statistics = [this](auto... args) { OnStatistics(args...); };
  options.rates = files_.rates.get();
  if (files_.loss_scaler) options.loss_scale = static_cast<float>(files_.loss_scaler->scale());
  const bool rdma = table_.config().transport().kind() == TransportConfig::VERBS && device_.describe;
  options.reaches = [this, rdma](Rank peer) { return rdma || (copies_ && copies_->Copies(peer)); };
  HP_ASSIGN_OR_RETURN(compute_, Compute::Create(*model_, options));
  for (const std::span<std::byte> memory : compute_->shared_device_memory()) {
    if (memory.empty()) continue;
    HP_ASSIGN_OR_RETURN(auto region, device_.device->is_host() ? transport_->Register(memory)
                                                               : transport_->RegisterDevice(device_.describe(memory)));
    regions_.push_back(std::move(region));
  }
  HP_ASSIGN_OR_RETURN(auto region, transport_->Register(compute_->shared_host_memory()));
  regions_.push_back(std::move(region));
  return KeepEngines();
}

// Before the first update: what was trained with engines that nobody knows any more could not be resumed to the bit.
Status Node::KeepEngines() {
  if (!engines_ || engines_->made() == 0) return OkStatus();
  HP_RETURN_IF_ERROR(engines_->Save());
  LOG(INFO) << engines_->path() << ": engines were chosen for " << engines_->made() << " operation(s) of convolutions";
  if (!files_.resumed.empty()) {
    LOG(WARNING) << "engines of " << engines_->made() << " operation(s) were chosen anew, since " << engines_->path()
                 << " did not have them: bits may differ from those of a run that was never stopped";
  }
  return OkStatus();
}

// --- Running

Status Node::Train() {
  ReleaseComputeThreads();  // from here on the executor's team computes
  PipelinePlan plan = model_->plan();
  plan.pool_size = memory_.pool_size;
  plan.start_clock = files_.start_clock;
  pipeline_ = std::make_unique<Pipeline>(plan, model_->schedule(), static_cast<PipelineHost*>(this), transport_);
  gauge_ = std::make_unique<NodeGauge>(info_.name, options_.clock, files_.solver.display(), [this] { return Use(); });
  if (options_.rank == 0) {
    job_gauge_ = std::make_unique<JobGauge>(table_, options_.clock, files_.solver.display(), files_.start_clock);
  }
  if (board_) {
    board_->Begin(
        &model_->job(),
        Format("%016llx.%lld", static_cast<unsigned long long>(files_.run.id()), static_cast<long long>(start_number_)),
        files_.start_clock, table_.DescribePrecision(precision_));
  }
  begun_ns_ = options_.clock->NowNs();
  MakeClockEnd();
  if (files_.inputs.train) files_.inputs.train->Start(files_.start_clock);
  Inbox::Assembled parts;
  parts.job = &model_->job();
  parts.start_clock = files_.start_clock;
  parts.requests = &requests_;
  parts.clock_end = clock_end_.get();
  parts.labels = labels_.get();
  parts.pipeline = pipeline_.get();
  parts.reporter = reporter_.get();
  parts.exchanges = exchanges_.places();
  parts.on_copied = [this](const SnapshotCopied& copied) { OnCopied(copied); };
  parts.on_part = [this](Rank owner, const SnapshotPartWritten& part) { snapshotter_->OnPart(owner, part); };
  inbox_->SetAssembled(std::move(parts));
  gate_.Open();
  pipeline_->Start();
  exchanges_.Start();
  training_ = true;
  const int threads = ThreadsOf(options_.rank);
  Executor::Options options;
  options.pipeline = pipeline_.get();
  options.compute = compute_.get();
  options.device = device_.device.get();
  options.on_start = [this, threads] { return TakeThreads(threads); };
  options.before_task = options_.before_task;
  options.boundary = [this](const Task& task) { return clock_end_->Boundary(task); };
  options.after_task = [this](const Task& task, int64_t begin_ns) {
    trace_->OnTask(task, begin_ns, Clock::Real()->NowNs());
    if (task.kind == Task::kFinishClock) {
      stop_budget_.OnIteration();
      gauge_->OnClockDone(task.clock);
    }
    clock_end_->OnTaskDone(task);
  };
  options.on_end = [this](const Status& status) { shutdown_.OnExecuted(status, pipeline_->finished()); };
  executor_ = std::make_unique<Executor>(std::move(options));
  return OkStatus();
}

void Node::MakeClockEnd() {
  ClockEnd::Options options;
  options.model = model_.get();
  options.solver = &files_.solver;
  options.inputs = &files_.inputs;
  options.start_clock = files_.start_clock;
  options.requests = &requests_;
  options.compute = compute_.get();
  options.labels = labels_.get();
  options.snapshotter = snapshotter_.get();
  options.pipeline = pipeline_.get();
  options.pulls = pulls_.get();
  options.rates = files_.rates.get();
  options.on_trace = [this](bool on) {
    if (!on) return trace_->End();
    if (const Status status = trace_->Begin(); !status.ok()) LOG(WARNING) << status.message();
  };
  options.add_use = [this](IterationReport* report) { AddToReport(report); };
  if (job_gauge_) {
    options.on_report = [this](Rank from, const IterationReport& report) {
      job_gauge_->Add(from, report);
      board_->Add(from, report);
    };
    options.take_slow = [this] { return board_->TakeSlow(); };
  }
  options.on_slow = [this](const SlowNode& slow) { OnSlow(slow); };
  options.send = [this](Rank to, uint32_t type, const google::protobuf::MessageLite& message) {
    Send(to, type, message);
  };
  options.on_stopped = [this](const Status& status) { shutdown_.OnStopped(status); };
  clock_end_ = std::make_unique<ClockEnd>(std::move(options));
}

Status Node::Finish() {
  const Status snapshot = snapshotter_->Finish();
  if (snapshot.code() == StatusCode::kUnavailable) {  // one that had said BYE already, so that nobody misses it
    shutdown_.Fail(snapshot);
    return snapshot;
  }
  if (const Status left = failure_detector_->Leave(kLeaveTimeoutMs); !left.ok()) {
    HP_RETURN_IF_ERROR(left.code() == StatusCode::kUnavailable ? shutdown_.AwaitFailure() : shutdown_.failure());
    LOG(ERROR) << "node " << info_.name << ": " << left.message();
    return Unavailable("%s", left.message().c_str());
  }
  gauge_->Finish();
  if (job_gauge_) job_gauge_->Finish();
  LogPayload();
  if (options_.on_done) options_.on_done(*params_);
  const bool early = clock_end_->stops_early();
  LOG(INFO) << (early ? "Optimization stopped early." : "Optimization Done.");
  if (snapshot.ok()) return early ? Stopped("stopped early, as requested") : OkStatus();
  LOG(ERROR) << "node " << info_.name << ": the last snapshot was not written: " << snapshot.message();
  return InternalError("the last snapshot was not written: %s", snapshot.message().c_str());
}

}  // namespace hp
