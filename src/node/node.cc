#include "node/node.h"

#include "base/format.h"
#include "layers/filler.h"
#include "layers/labels.h"
#include "net/weights.h"
#include "proto/hash.h"
#include "proto/net_filter.h"
#include "proto/text.h"
#include "scheduler/hosts.h"
#include "scheduler/messages.h"
#include "scheduler/table_check.h"
#include "solvers/check.h"
#include "solvers/exchange/gloo_exchange.h"
#include "solvers/exchange/local_exchange.h"

#include "glog/logging.h"
#include <omp.h>

#include <algorithm>
#include <chrono>

namespace hp {
namespace {

constexpr int kLeaveTimeoutMs = 600'000;  // the first node may still write a large snapshot
constexpr auto kStallReport = std::chrono::seconds(15);
constexpr int kStopTimeoutMs = 2'000;
constexpr auto kLeaveLinger = std::chrono::seconds(3);  // the watch takes less to tell the others

const caffe::LayerParameter* DataLayerOf(const caffe::NetParameter& net, caffe::Phase phase) {
  for (int i : LayersOf(net, phase)) {
    if (net.layer(i).type() == "Data") return &net.layer(i);
  }
  return nullptr;
}

DataShape ShapeMessage(const Input& input, bool test) {
  DataShape shape;
  shape.set_test(test);
  shape.set_channels(static_cast<int>(input.sample_shape().dim(0)));
  shape.set_height(static_cast<int>(input.sample_shape().dim(1)));
  shape.set_width(static_cast<int>(input.sample_shape().dim(2)));
  shape.set_records(input.records());
  return shape;
}

}  // namespace

Node::Node(NodeOptions options)
    : options_(std::move(options)),
      table_(*options_.table),
      info_(table_.node(options_.rank)),
      transport_(options_.transport.get()) {}

// Threads first: nobody may call into a part that is gone.
Node::~Node() {
  if (pipeline_) pipeline_->Abort();
  if (exchange_) exchange_->Abort(Cancelled("the node ends"));
  if (rendezvous_) rendezvous_->Abort(Cancelled("the node ends"));
  executor_.Join();
  if (watch_) watch_->Stop();  // the transport still reports to it
  if (train_input_) train_input_->Stop();
  if (test_input_) test_input_->Stop();
  snapshotter_.reset();
  transport_->Stop();
}

Status Node::Run() {
  for (auto step : {&Node::LoadFiles, &Node::OpenInputs, &Node::LoadSnapshot, &Node::Connect, &Node::BuildModel,
                    &Node::InitParams, &Node::ConnectExchange, &Node::PrepareInputs, &Node::RegisterMemory}) {
    const Status status = (this->*step)();
    if (status.ok()) continue;
    Fail(status);
    WaitForLeave();
    return status;
  }
  StartPipeline();
  Status status = WaitForEnd();
  if (status.ok()) status = Finish();
  if (!status.ok()) WaitForLeave();
  return status;
}

// --- Assembly

Status Node::LoadFiles() {
  HP_ASSIGN_OR_RETURN(solver_, ReadSolver(table_.solver_path()));
  HP_RETURN_IF_ERROR(CheckSolver(solver_).Prepend(table_.solver_path()));
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, NetOfSolver(solver_));
  net_ = std::make_shared<const caffe::NetParameter>(std::move(net));
  std::vector<std::string> faults = CheckTable(table_.config(), *net_, CanonicalAddresses);
  for (const std::string& fault : CheckSolverFit(table_.config(), solver_)) faults.push_back(fault);
  if (!faults.empty()) {
    std::string all;
    for (const std::string& fault : faults) all += (all.empty() ? "" : "\n") + fault;
    return InvalidArgument("%s: %s", table_.path().c_str(), all.c_str());
  }
  LOG(INFO) << "Solving " << net_->name();
  LOG(INFO) << "Learning Rate Policy: " << solver_.lr_policy();
  backend_ = MakeCpuBackend();
  return OkStatus();
}

Status Node::OpenInputs() {
  if (!table_.stage(info_.stage).conv) return OkStatus();
  const caffe::LayerParameter* train = DataLayerOf(*net_, caffe::TRAIN);
  if (train == nullptr) return InvalidArgument("net \"%s\" has no Data layer to train from", net_->name().c_str());
  HP_ASSIGN_OR_RETURN(train_input_, Input::Open(*train, true, options_.cache_dir));
  if (solver_.test_iter_size() == 0) return OkStatus();
  const caffe::LayerParameter* test = DataLayerOf(*net_, caffe::TEST);
  if (test == nullptr) return InvalidArgument("net \"%s\" has no Data layer to test with", net_->name().c_str());
  HP_ASSIGN_OR_RETURN(test_input_, Input::Open(*test, false, options_.cache_dir));
  return OkStatus();
}

Status Node::LoadSnapshot() {
  if (options_.resume.empty()) return OkStatus();
  // It is fitted to the net in InitParams: the shapes follow from the input's, which an FC node hears from others.
  HP_ASSIGN_OR_RETURN(LoadedSnapshot snapshot, ReadSnapshot(options_.resume));
  snapshot_ = std::make_unique<LoadedSnapshot>(std::move(snapshot));
  start_clock_ = snapshot_->iteration;
  HP_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(options_.resume));
  snapshot_hash_ = HashBytes(bytes);
  if (!snapshot_->manifest) return OkStatus();
  const SnapshotManifest& manifest = *snapshot_->manifest;
  if (manifest.net_hash() != NetHash(*net_)) {
    return FailedPrecondition("%s was written by another net than \"%s\"", options_.resume.c_str(),
                              net_->name().c_str());
  }
  return RequireSavedThreads(manifest);
}

// The number of threads decides the order of sums: a job that goes on under its own division goes on with its own.
Status Node::RequireSavedThreads(const SnapshotManifest& manifest) {
  if (manifest.division_hash() != table_.division_hash() || manifest.node_size() != table_.size()) {
    LOG(INFO) << options_.resume << " was written under another division of the work: what follows is the same up to "
              << "rounding, not to the bit";
    return OkStatus();
  }
  std::string differences;
  for (const NodeInfo& node : table_.nodes()) {
    const int saved = manifest.node(node.rank).threads();
    if (saved < 1)
      return DataLoss("%s: the manifest beside it gives node %d no threads", options_.resume.c_str(), node.rank);
    saved_threads_.push_back(saved);
    if (node.threads == 0 || node.threads == saved) continue;
    differences += Format("%snode \"%s\" had %d thread(s), the table gives it %d", differences.empty() ? "" : "; ",
                          node.name.c_str(), saved, node.threads);
  }
  if (differences.empty()) return OkStatus();
  return FailedPrecondition("%s: %s when %s was written; for the same bits expected the same, or no threads there",
                            table_.path().c_str(), differences.c_str(), options_.resume.c_str());
}

int Node::ThreadsOf(Rank rank) const {
  return saved_threads_.empty() ? handshake_->ThreadsOf(rank) : saved_threads_.at(rank);
}

// A team that is smaller than asked for adds up in another order.
Status Node::TakeThreads(int threads) const {
  if (threads > omp_get_thread_limit()) {
    return FailedPrecondition("node \"%s\" computes with %d threads%s; its process may have %d (OMP_THREAD_LIMIT)",
                              info_.name.c_str(), threads, saved_threads_.empty() ? "" : ", as before the snapshot",
                              omp_get_thread_limit());
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  return OkStatus();
}

Status Node::Connect() {
  JobFacts facts;
  facts.rank = options_.rank;
  facts.net_hash = NetHash(*net_);
  facts.solver_hash = SolverHash(solver_);
  facts.start_clock = start_clock_;
  facts.snapshot_hash = snapshot_hash_;
  facts.random_seed = solver_.random_seed();
  if (snapshot_ && snapshot_->manifest) facts.random_seed = snapshot_->manifest->random_seed();
  if (train_input_) {
    facts.dataset_hash = train_input_->fingerprint();
    facts.data_shapes.push_back(ShapeMessage(*train_input_, false));
  }
  if (test_input_) {
    facts.dataset_hash ^= test_input_->fingerprint() * 31;
    facts.data_shapes.push_back(ShapeMessage(*test_input_, true));
  }
  facts.cores = AvailableCores();
  facts.host_id = HostId();
  rendezvous_ = std::make_unique<NodeRendezvous>(transport_, options_.rank, table_.stage(info_.stage).ranks);
  JobHandshake::Callbacks callbacks;
  callbacks.on_fatal = [this](const Status& status) {
    MutexLock lock(&mutex_);
    SetApart(status);
  };
  callbacks.on_parted = [this](Rank peer, const Status& refused_us) { OnParted(peer, refused_us); };
  handshake_ = std::make_unique<JobHandshake>(table_, facts, callbacks);
  watch_ = std::make_unique<Watch>(table_, options_.rank, transport_, options_.clock,
                                   [this](const Status& status, bool said) { OnLost(status, said); });
  HP_RETURN_IF_ERROR(transport_->Start(this, handshake_.get()));
  watch_->Start();
  MutexLock lock(&mutex_);
  while (static_cast<int>(connected_.size()) < table_.size() - 1 && failure_.ok() && apart_.ok()) {
    changed_.Wait(&mutex_);
  }
  while (!apart_.ok() && failure_.ok() && !AllTold()) changed_.Wait(&mutex_);
  connecting_ = false;
  return apart_.ok() ? failure_ : apart_;
}

void Node::SetApart(const Status& status) {
  if (!apart_.ok()) return;
  apart_ = status;
  LOG(ERROR) << "node " << info_.name << ": " << status.message();
  changed_.SignalAll();
}

void Node::OnParted(Rank peer, const Status& refused_us) {
  bool apart = false;
  {
    MutexLock lock(&mutex_);
    parted_.insert(peer);
    apart = connecting_ && !refused_us.ok() && !connected_.contains(peer);
    changed_.SignalAll();
  }
  if (apart) handshake_->GiveUp(refused_us);
}

// The first node of the table, to which all others come, keeps the door until it has told them all, or none comes any
// more: who comes late would wait in vain for nodes that are gone. The others only have to reach it.
bool Node::AllTold() const {
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    if (rank == options_.rank || connected_.contains(rank) || parted_.contains(rank)) continue;
    if (rank == 0 || options_.rank == 0) return false;
  }
  return true;
}

Status Node::BuildModel() {
  const std::optional<int64_t> seed = handshake_->seed();
  CHECK(seed) << "no seed after the handshake";
  seed_ = static_cast<uint64_t>(*seed);
  NodeModel::Options options;
  options.table = &table_;
  options.rank = options_.rank;
  options.solver = solver_;
  options.net = net_;
  options.backend = backend_.get();
  options.seed = seed_;
  for (const DataShape& shape : handshake_->data_shapes()) {
    (shape.test() ? options.test_shape : options.train_shape) = Shape{shape.channels(), shape.height(), shape.width()};
  }
  const int threads = ThreadsOf(options_.rank);
  HP_RETURN_IF_ERROR(TakeThreads(threads));
  HP_ASSIGN_OR_RETURN(model_, NodeModel::Create(options));
  LOG(INFO) << "node " << info_.name << ": seed " << seed_ << ", " << threads << " thread(s), "
            << model_->any_net(true).segments() << " segment(s); " << model_->DescribeMemory();
  labels_ = std::make_unique<LabelStore>(model_->schedule());
  if (model_->reporter() == options_.rank) {
    reporter_ = std::make_unique<Reporter>(*model_, options_.clock, start_clock_, options_.on_loss);
    reporter_ready_ = true;
  }
  if (options_.rank == 0) verdicts_ = std::make_unique<VerdictKeeper>(table_.size(), solver_.clip_gradients());
  return OkStatus();
}

Status Node::InitParams() {
  params_ = std::make_unique<ParamStore>(model_->stored_params());
  const NodeNet& net = model_->any_net(true);
  params_->Fill([&](const StoredParam& param, int64_t begin, int64_t end, float* out) {
    for (const NodeParam& candidate : net.params()) {
      if (candidate.layer != param.layer || candidate.blob != param.blob) continue;
      FillParam(candidate.spec.filler, param.whole, begin, end, seed_, param.name(), out);
    }
  });
  if (snapshot_) {
    std::vector<SnapshotParam> whole;
    for (const WholeParam& param : model_->whole_params()) {
      whole.push_back({param.whole.layer, param.whole.blob, param.whole.whole, nullptr, nullptr});
    }
    HP_RETURN_IF_ERROR(FitSnapshot(options_.resume, whole, snapshot_.get()));
  }
  std::optional<CaffeModel> weights;
  if (!options_.weights.empty() && !snapshot_) {
    HP_ASSIGN_OR_RETURN(weights, ReadCaffeModel(options_.weights));
  }
  for (int i = 0; i < params_->size(); ++i) {
    const StoredParam& param = params_->param(i);
    const CaffeModel* model = snapshot_ ? &snapshot_->model : weights ? &*weights : nullptr;
    if (model == nullptr) continue;
    if (!snapshot_ && model->Find(param.layer, param.blob) == nullptr) continue;  // a layer that is new: its filler
    HP_RETURN_IF_ERROR(model->CopyRows(param.layer, param.blob, param.whole, param.begin_row, param.end_row,
                                       params_->values(i).data()));
    params_->MarkUpdated(i);
    if (!snapshot_ || params_->history(i).empty()) continue;
    auto history = snapshot_->histories.find({param.layer, param.blob});
    if (history == snapshot_->histories.end()) continue;
    const int64_t row = param.whole.count(1);
    std::copy_n(history->second.data.begin() + param.begin_row * row, params_->count(i), params_->history(i).begin());
  }
  if (snapshot_) LOG(INFO) << "resuming at iteration " << start_clock_ << " from " << options_.resume;
  snapshot_.reset();
  return OkStatus();
}

Status Node::ConnectExchange() {
  exchange_ = std::make_unique<LocalExchange>();
  if (!model_->data_parallel() || table_.replicas() == 1) return OkStatus();
  GlooOptions options;
  options.rank = info_.index;
  options.size = table_.replicas();
  options.address = info_.host;
  options.key_prefix = "conv";
  options.on_failure = [this](const Status& status) { watch_->OnDataFailure(options_.rank, status); };
  HP_ASSIGN_OR_RETURN(exchange_, ConnectGlooExchange(options, rendezvous_.get()));
  return OkStatus();
}

Status Node::PrepareInputs() {
  Input::Callbacks callbacks;
  callbacks.on_labels = [this](auto... args) { OnLabels(args...); };
  callbacks.on_ready = [this] { WhenReady([this] { pipeline_->OnInputs(); }); };
  callbacks.on_error = [this](const Status& status) { Fail(status); };
  const int ring = model_->plan().pool_size + 2;
  for (Input* input : {train_input_.get(), test_input_.get()}) {
    if (input == nullptr) continue;
    HP_RETURN_IF_ERROR(
        input->Prepare(model_->schedule(), model_->replica(), seed_, ring, options_.reader_threads, callbacks));
  }
  return OkStatus();
}

Status Node::RegisterMemory() {
  compute_ = std::make_unique<Compute>(*model_, params_.get(), exchange_.get(), labels_.get(), train_input_.get(),
                                       test_input_.get(), [this](auto... args) { OnStatistics(args...); });
  HP_ASSIGN_OR_RETURN(auto pool, transport_->Register(compute_->pool()->memory()));
  regions_.push_back(std::move(pool));
  for (const Buffer& matrix : compute_->update_matrices()) {
    HP_ASSIGN_OR_RETURN(auto region, transport_->Register(matrix.span()));
    regions_.push_back(std::move(region));
  }
  Snapshotter::Options options;
  options.prefix = solver_.snapshot_prefix();
  options.manifest.set_random_seed(static_cast<int64_t>(seed_));
  options.manifest.set_net_hash(NetHash(*net_));
  options.manifest.set_solver_hash(SolverHash(solver_));
  options.manifest.set_division_hash(table_.division_hash());
  for (const NodeInfo& node : table_.nodes()) {
    SnapshotNode* entry = options.manifest.add_node();
    entry->set_name(node.name);
    entry->set_threads(ThreadsOf(node.rank));
  }
  if (options_.rank == 0) {
    pulls_ = std::make_unique<PullServer>(*model_, transport_);
    options.on_pulled = [this](std::shared_ptr<GatheredModel> model) { pulls_->OnGathered(std::move(model)); };
  }
  snapshotter_ = std::make_unique<Snapshotter>(*model_, params_.get(), transport_, options);
  return OkStatus();
}

// --- Running

void Node::StartPipeline() {
  PipelinePlan plan = model_->plan();
  plan.start_clock = start_clock_;
  pipeline_ = std::make_unique<Pipeline>(plan, model_->schedule(), static_cast<PipelineHost*>(this), transport_);
  if (train_input_) train_input_->Start(start_clock_);
  for (;;) {
    std::vector<std::function<void()>> events;
    {
      MutexLock lock(&mutex_);
      ready_ = waiting_.empty();
      events.swap(waiting_);
    }
    if (events.empty()) break;
    for (const auto& event : events) event();
  }
  pipeline_->Start();
  const int threads = ThreadsOf(options_.rank);
  executor_ = Thread("executor", [this, threads] {
    CHECK(TakeThreads(threads).ok());
    Execute();
  });
}

void Node::Execute() {
  while (std::optional<Task> task = pipeline_->NextTask()) {
    if (options_.before_task) options_.before_task(*task);
    const int64_t begin_ns = Clock::Real()->NowNs();
    const Status status = RunTask(*task);
    VLOG(1) << Describe(*task) << Format(": %.2f ms", static_cast<double>(Clock::Real()->NowNs() - begin_ns) / 1e6);
    if (!status.ok()) {
      // A collective failed because a replica is lost: the watch finds out which, and ends the job.
      LOG(WARNING) << "iteration " << task->clock << ": " << status;
      break;
    }
    pipeline_->Done(*task);
  }
  MutexLock lock(&mutex_);
  executed_ = pipeline_->finished();
  changed_.SignalAll();
}

Status Node::RunTask(const Task& task) {
  if (task.kind == Task::kBoundary) {
    Boundary(task.clock);
    return OkStatus();
  }
  HP_RETURN_IF_ERROR(compute_->Run(task));
  const bool waits = model_->plan().wait_for_verdict;
  if (task.kind == (waits ? Task::kNorm : Task::kFinishClock)) SendVerdictPart(task.clock);
  return OkStatus();
}

// Between two updates: tests begin, snapshots and pulls are copied.
void Node::Boundary(int64_t clock) {
  Verdict order;
  {
    MutexLock lock(&mutex_);
    if (auto found = orders_.find(clock); found != orders_.end()) order = found->second;
    orders_.erase(orders_.begin(), orders_.upper_bound(clock));
  }
  labels_->Forget(clock);
  const bool last = clock >= solver_.max_iter() || order.stop();
  if (test_input_ && !order.stop() && model_->schedule().TestsAt(clock)) test_input_->Start(clock);
  const bool periodic = solver_.snapshot() > 0 && clock % solver_.snapshot() == 0 && clock > start_clock_;
  const bool files = periodic || order.snapshot() || (last && solver_.snapshot_after_train() && clock > start_clock_);
  if (files || order.pull()) snapshotter_->Begin(clock, files, order.pull());
}

void Node::SendVerdictPart(int64_t clock) {
  VerdictPart part = compute_->TakeVerdictPart(clock);
  part.set_stop(stop_requested_);
  part.set_snapshot(snapshot_requested_.exchange(false));
  if (pulls_ && pulls_->TakeOrder()) part.add_pull(1);
  if (options_.rank == 0) {
    OnVerdictPart(0, part);
  } else {
    Send(0, kVerdictPartMessage, part);
  }
}

void Node::OnVerdictPart(Rank from, const VerdictPart& part) {
  std::optional<Verdict> verdict;
  {
    MutexLock lock(&mutex_);
    verdict = verdicts_->Add(from, part);
  }
  if (!verdict) return;
  for (Rank rank = 1; rank < table_.size(); ++rank) Send(rank, kVerdictMessage, *verdict);
  OnVerdict(*verdict);
}

void Node::OnVerdict(const Verdict& verdict) {
  if (verdict.status() != 0) {
    MutexLock lock(&mutex_);
    stopped_ = NumericError("iteration %lld: layer \"%s\" gave a number that is not finite",
                            static_cast<long long>(verdict.clock()), verdict.layer().c_str());
    changed_.SignalAll();
    return;
  }
  const int64_t due = verdict.clock() + 2;
  if (verdict.stop() || verdict.snapshot() || verdict.pull()) {
    MutexLock lock(&mutex_);
    orders_[due] = verdict;
  }
  compute_->SetGradientScale(static_cast<float>(verdict.scale()));
  snapshotter_->OnVerdict(verdict.clock());
  pipeline_->OnVerdict(verdict.clock(), verdict.stop() ? std::optional<int64_t>(due) : std::nullopt);
}

void Node::OnLabels(int64_t clock, bool train, int64_t batch, int64_t first_row, std::span<const float> labels) {
  const GraphLayer* reader = nullptr;
  for (const GraphLayer& layer : model_->graph(train).layers()) {
    if (layer.layer->reads_labels()) reader = &layer;
  }
  if (reader == nullptr) return;
  const Status status = CheckLabels(labels, model_->label_classes(train), IgnoredLabel(*reader->layer));
  if (!status.ok()) {
    return Fail(status.Prepend(Format("layer \"%s\", batch %lld, rows from %lld", reader->layer->name().c_str(),
                                      static_cast<long long>(batch), static_cast<long long>(first_row))));
  }
  labels_->Add(clock, train, batch, first_row, labels);
  WhenReady([this] { pipeline_->OnInputs(); });
  constexpr size_t kMost = 100'000;
  for (size_t begin = 0; begin < labels.size(); begin += kMost) {
    const auto part = labels.subspan(begin, std::min(kMost, labels.size() - begin));
    LabelsMessage message;
    message.set_clock(clock);
    message.set_train(train);
    message.set_batch(batch);
    message.set_first_row(first_row + static_cast<int64_t>(begin));
    message.mutable_label()->Add(part.begin(), part.end());
    for (Rank rank : model_->label_readers(train)) {
      if (rank != options_.rank) Send(rank, kLabelsMessage, message);
    }
  }
}

void Node::OnStatistics(MsgId id, const std::vector<float>& values) {
  if (reporter_) return reporter_->Add(id, info_.stage, values);
  StatisticsMessage message;
  message.set_msg_id(id.bits);
  message.mutable_value()->Add(values.begin(), values.end());
  Send(model_->reporter(), kStatisticsMessage, message);
}

bool Node::InputsReady(MsgId id, int segment) {
  const NodeNet& net = model_->any_net(id.train());
  if (net.reads_images() && segment == 0) {
    if (!(id.train() ? train_input_ : test_input_)->Ready(id)) return false;
  }
  return !net.reads_labels(segment) || labels_->Ready(id, net.needs_batch_labels(segment));
}

void Node::Freed(int, MsgId id) {
  if (model_->any_net(id.train()).reads_images()) (id.train() ? train_input_ : test_input_)->Release(id);
}

// --- Ending

Status Node::WaitForEnd() {
  Status status;
  {
    MutexLock lock(&mutex_);
    std::string seen;
    while (!executed_ && failure_.ok() && stopped_.ok()) {
      if (changed_.WaitFor(&mutex_, kStallReport)) continue;
      const std::string now = pipeline_->Describe();
      if (now == seen) LOG(INFO) << "node " << info_.name << " waits: " << now;
      seen = now;
    }
    status = !stopped_.ok() ? stopped_ : failure_;
  }
  if (status.code() == StatusCode::kNumeric) {
    LOG(ERROR) << status.message();
    watch_->Leave(kStopTimeoutMs);
    if (options_.leave) options_.leave(status);
  }
  return status;
}

Status Node::Finish() {
  const Status snapshot = snapshotter_->Finish();
  if (!watch_->Leave(kLeaveTimeoutMs)) {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    LOG(ERROR) << "node " << info_.name << ": the other nodes did not end the job in time";
    return Unavailable("the other nodes did not end the job in time");
  }
  if (options_.on_done) options_.on_done(*params_);
  LOG(INFO) << "Optimization Done.";
  if (snapshot.ok()) return snapshot;
  LOG(ERROR) << "node " << info_.name << ": the last snapshot was not written: " << snapshot.message();
  return InternalError("the last snapshot was not written: %s", snapshot.message().c_str());
}

// The others hear the cause before we go: the watch says it, reads on for a moment, and then calls Leave.
void Node::Fail(const Status& status) {
  bool over = false;
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    over = watch_over_;
    if (apart_.ok()) LOG(ERROR) << "node " << info_.name << ": " << status.message();
    changed_.SignalAll();
  }
  if (watch_ && !over) {
    watch_->Fail(status.message());
  } else {
    Leave();
  }
}

void Node::OnLost(const Status& status, bool said) {
  bool stay = false;
  {
    MutexLock lock(&mutex_);
    watch_over_ = true;
    stay = connecting_ && said && failure_.ok();
    if (stay) SetApart(status);
    if (!stay && failure_.ok()) {
      failure_ = apart_.ok() ? status : apart_;  // then the others only say what we know
      if (apart_.ok()) LOG(ERROR) << failure_.message();
    }
    changed_.SignalAll();
  }
  if (stay) return handshake_->GiveUp(status);  // who has not come yet hears it from the first node
  Leave();
}

void Node::Leave() {
  Status status;
  {
    MutexLock lock(&mutex_);
    status = failure_;
  }
  if (options_.leave) options_.leave(status);
  if (rendezvous_) rendezvous_->Abort(status);
  if (exchange_) exchange_->Abort(status);
  if (pipeline_) pipeline_->Abort();
  MutexLock lock(&mutex_);
  left_ = true;
  changed_.SignalAll();
}

void Node::WaitForLeave() {
  const auto until = std::chrono::steady_clock::now() + kLeaveLinger;
  MutexLock lock(&mutex_);
  while (!failure_.ok() && !left_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !changed_.WaitFor(&mutex_, left)) return;
  }
}

// --- Events

void Node::WhenReady(std::function<void()> event) {
  {
    MutexLock lock(&mutex_);
    if (!ready_) {
      waiting_.push_back(std::move(event));
      return;
    }
  }
  event();
}

template <typename Message>
void Node::Send(Rank rank, uint32_t type, const Message& message) {
  const std::string bytes = message.SerializeAsString();
  const Status status = transport_->Send(rank, type, std::as_bytes(std::span(bytes)));
  if (!status.ok()) LOG(WARNING) << "message to node " << table_.node(rank).name << ": " << status;
}

void Node::OnConnected(Rank peer) {
  watch_->OnConnected(peer);
  if (peer >= table_.size()) return;
  MutexLock lock(&mutex_);
  connected_.insert(peer);
  changed_.SignalAll();
}

void Node::OnConnectFailed(Rank peer, const Status& status) {
  {
    MutexLock lock(&mutex_);
    parted_.insert(peer);
    changed_.SignalAll();
    if (!apart_.ok()) return;  // Connect waits for no more than to know what became of each
  }
  Fail(status);
}

void Node::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  WhenReady([=, this] {
    if (Snapshotter::IsSnapshotPort(tag)) return snapshotter_->OnGranted(peer, tag, grant);
    pipeline_->OnGranted(peer, tag, grant, bytes);
  });
}

void Node::OnGrantEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  if (Snapshotter::IsSnapshotPort(tag)) return snapshotter_->OnGrantEnded(tag, status);
  pipeline_->OnGrantEnded(peer, tag, status);
}

void Node::OnWriteEnded(Rank peer, const PlaceTag& tag, const Status& status) {
  if (Snapshotter::IsSnapshotPort(tag)) return snapshotter_->OnWriteEnded();
  pipeline_->OnWriteEnded(peer, tag, status);
}

void Node::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  if (watch_->OnMessage(peer, type, bytes)) return;
  if (type == kRendezvousMessage) {
    RendezvousMessage message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    rendezvous_->OnMessage(message.key(), message.value());
    return;
  }
  WhenReady([this, peer, type, copy = std::vector<std::byte>(bytes.begin(), bytes.end())] {
    HandleMessage(peer, type, copy);
  });
}

void Node::HandleMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  const int size = static_cast<int>(bytes.size());
  if (peer >= table_.size()) {
    if (type == kPullRequest && pulls_) pulls_->OnRequest(peer);
    return;
  }
  if (type == kVerdictPartMessage && verdicts_) {
    VerdictPart part;
    if (part.ParseFromArray(bytes.data(), size)) OnVerdictPart(peer, part);
  } else if (type == kVerdictMessage) {
    Verdict verdict;
    if (verdict.ParseFromArray(bytes.data(), size)) OnVerdict(verdict);
  } else if (type == kLabelsMessage) {
    LabelsMessage message;
    if (!message.ParseFromArray(bytes.data(), size)) return;
    labels_->Add(message.clock(), message.train(), message.batch(), message.first_row(),
                 {message.label().data(), static_cast<size_t>(message.label_size())});
    pipeline_->OnInputs();
  } else if (type == kStatisticsMessage && reporter_) {
    StatisticsMessage message;
    if (!message.ParseFromArray(bytes.data(), size)) return;
    reporter_->Add(MsgId{message.msg_id()}, table_.node(peer).stage, {message.value().begin(), message.value().end()});
  } else {
    LOG(WARNING) << "message of unknown kind " << type << " from node " << table_.node(peer).name;
  }
}

void Node::OnClosed(Rank peer, const Status& status) {
  if (peer >= table_.size()) {
    WhenReady([this, peer] {
      if (pulls_) pulls_->OnGone(peer);
    });
  }
  watch_->OnClosed(peer, status);
}

}  // namespace hp
