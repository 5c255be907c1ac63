#include "transport/verbs/endpoint.h"

#include "transport/verbs/wc_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr uint32_t kControlQp = 0;  // id of the control queue pair; data queue pair i has 1 + i
constexpr int kPollBatch = 64;

// Why a completion queue is never overrun: each entry of the three queues that feed it has one completion at most.
int CqEntries(const VerbsSettings& settings) {
  return static_cast<int>(settings.send_depth * (1 + static_cast<uint32_t>(settings.qps_per_connection)) +
                          settings.control_receives + settings.data_receives);
}

Status BrokenRule(const Status& status) { return Unavailable("protocol error: %s", status.message().c_str()); }

}  // namespace

StatusOr<std::shared_ptr<VerbsEndpoint>> VerbsEndpoint::Create(Rank peer, const std::string& name, uint32_t epoch,
                                                               Parts parts) {
  std::shared_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(peer, name, epoch, std::move(parts)));
  HP_RETURN_IF_ERROR(endpoint->Prepare());
  return endpoint;
}

VerbsEndpoint::VerbsEndpoint(Rank peer, std::string name, uint32_t epoch, Parts parts)
    : peer_(peer), name_(std::move(name)), epoch_(epoch), parts_(std::move(parts)) {}

VerbsEndpoint::~VerbsEndpoint() { Abandon(); }

// --- Setting up

Status VerbsEndpoint::Prepare() {
  Verbs* const verbs = parts_.device->verbs();
  const VerbsSettings& settings = parts_.device->settings();
  CqUser* const self = this;
  cq_ =
      CqHandle(verbs->CreateCq(parts_.device->context(), CqEntries(settings), self, parts_.device->channel()), {verbs});
  if (!cq_) return FailedPrecondition("no completion queue of %d: %s", CqEntries(settings), std::strerror(errno));
  QueuePair::Spec spec{
      .cq = cq_.get(), .srq = parts_.device->control_receives()->srq(), .port = parts_.device->port(), .context = self};
  HP_ASSIGN_OR_RETURN(control_qp_, QueuePair::Create(verbs, parts_.device->pd(), spec, settings, kControlQp));
  spec.srq = parts_.device->data_receives()->srq();
  spec.access = IBV_ACCESS_REMOTE_WRITE;
  for (int i = 0; i < settings.qps_per_connection; ++i) {
    HP_ASSIGN_OR_RETURN(auto qp, QueuePair::Create(verbs, parts_.device->pd(), spec, settings, kControlQp + 1 + i));
    data_qps_.push_back(std::move(qp));
  }
  MutexLock lock(&mutex_);
  HP_ASSIGN_OR_RETURN(control_, ControlSender::Create(*parts_.device, control_qp_.get()));
  return OkStatus();
}

StatusOr<VerbsSetup> VerbsEndpoint::OwnSetup() {
  HP_ASSIGN_OR_RETURN(gid_, parts_.device->CurrentGid());
  const PortAddress address = parts_.device->address(gid_);
  VerbsSetup setup{.epoch = epoch_,
                   .control_bytes = parts_.device->settings().control_bytes,
                   .mtu = static_cast<uint8_t>(parts_.device->mtu()),
                   .ethernet = address.ethernet,
                   .lid = address.lid};
  std::copy(address.gid.begin(), address.gid.end(), setup.gid);
  const auto add = [&setup](const QueuePair& qp) { setup.qps.push_back({qp.address().number, qp.address().psn}); };
  add(*control_qp_);
  for (const auto& qp : data_qps_) add(*qp);
  return setup;
}

Status VerbsEndpoint::Connect(const VerbsSetup& theirs) {
  Path path{.port = parts_.device->port(),
            .gid_index = gid_.index,
            .mtu = std::min(parts_.device->mtu(), static_cast<ibv_mtu>(theirs.mtu)),
            .peer = {.lid = theirs.lid, .ethernet = theirs.ethernet}};
  std::copy(std::begin(theirs.gid), std::end(theirs.gid), path.peer.gid.begin());
  if (parts_.device->address(gid_).ethernet != theirs.ethernet) {
    return FailedPrecondition("one side is on Ethernet (RoCE), the other on InfiniBand");
  }
  // Both sides use as many as the one with fewer has.
  data_qps_.resize(std::min(data_qps_.size(), theirs.qps.size() - 1));
  const VerbsSettings& settings = parts_.device->settings();
  HP_RETURN_IF_ERROR(control_qp_->Connect(path, {theirs.qps[0].number, theirs.qps[0].psn}, settings));
  std::vector<QueuePair*> lanes;
  for (size_t i = 0; i < data_qps_.size(); ++i) {
    HP_RETURN_IF_ERROR(data_qps_[i]->Connect(path, {theirs.qps[1 + i].number, theirs.qps[1 + i].psn}, settings));
    lanes.push_back(data_qps_[i].get());
  }
  lanes_ = lanes.size();
  inline_bytes_ = lanes[0]->inline_bytes();
  const uint64_t max_request = std::min<uint64_t>(parts_.device->max_message(), settings.max_write_bytes);
  VLOG(1) << name_ << ": GID " << GidText(parts_.device->address(gid_).gid) << " to " << GidText(path.peer.gid)
          << ", MTU " << (128 << path.mtu) << ", " << lanes.size() << " data queue pairs, epochs " << epoch_ << " and "
          << theirs.epoch;
  MutexLock lock(&mutex_);
  control_->Limit(theirs.control_bytes);
  writes_ = std::make_unique<WriteSender>(std::move(lanes), max_request);
  return OkStatus();
}

void VerbsEndpoint::Open(TcpSocket lifeline) {
  last_heard_ns_ = parts_.context.clock->NowNs();
  const auto self = std::static_pointer_cast<VerbsEndpoint>(shared_from_this());
  parts_.context.handler->OnConnected(peer_);
  lifeline_ = std::make_unique<Lifeline>(std::move(lifeline), [self](Lifeline::Event event, const std::string& reason) {
    self->OnLifeline(event, reason);
  });
  parts_.context.progress->Watch(self);
}

// --- Posts

Status VerbsEndpoint::CheckOpen() const {
  if (!closed_ && !ended_here_) return OkStatus();
  return Unavailable("%s is not connected", name_.c_str());
}

uint16_t VerbsEndpoint::PartsOf(size_t bytes) const {
  const size_t wanted = bytes / parts_.device->settings().split_bytes;
  return static_cast<uint16_t>(std::clamp<size_t>(wanted, 1, lanes_));
}

Status VerbsEndpoint::Pump() {
  // END comes after everything else has arrived: nothing orders it behind the writes on other queue pairs.
  HP_RETURN_IF_ERROR(writes_->Pump());
  if (ended_here_ && !end_pushed_ && writes_->idle()) {
    end_pushed_ = true;
    control_->Push({.type = ControlType::kEnd});
  }
  return control_->Pump(end_pushed_);
}

void VerbsEndpoint::Posted() {
  const bool inside = parts_.context.progress->Inside();  // what a handler posts goes together when it returns
  if (!inside && post_failure_.ok()) post_failure_ = Pump();
  if (inside || !post_failure_.ok()) parts_.context.progress->Schedule(shared_from_this());
}

Status VerbsEndpoint::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  if (closed_) return Unavailable("%s is not connected", name_.c_str());
  HP_ASSIGN_OR_RETURN(Landing landing, parts_.memory->OpenPlace(epoch_, place));
  ControlFrame frame{.type = ControlType::kGrant,
                     .parts = PartsOf(place.size()),
                     .msg_id = tag.msg_id,
                     .bytes = place.size(),
                     .address = landing.address,
                     .port = tag.port,
                     .rkey = landing.rkey};
  MutexLock lock(&mutex_);
  HP_RETURN_IF_ERROR(CheckOpen());
  HP_ASSIGN_OR_RETURN(const RemoteGrant grant, landings_.Open(tag, place, std::move(landing), frame.parts));
  frame.index = grant.index;
  frame.generation = grant.generation;
  control_->Push(frame);
  Posted();
  return OkStatus();
}

Status VerbsEndpoint::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  if (closed_) return Unavailable("%s is not connected", name_.c_str());
  OutgoingWrite write{.tag = tag, .grant = grant, .bytes = source.size()};
  HP_ASSIGN_OR_RETURN(write.source, parts_.memory->OpenSource(source, inline_bytes_));
  MutexLock lock(&mutex_);
  HP_RETURN_IF_ERROR(CheckOpen());
  const size_t bytes = source.size();
  HP_RETURN_IF_ERROR(remote_.Take(grant, &tag, &bytes).status());
  const auto place = remote_places_.find(grant.index);
  write.remote_address = place->second.address;
  write.rkey = place->second.rkey;
  write.parts = place->second.parts;
  remote_places_.erase(place);
  writes_->Push(std::move(write));
  Posted();
  return OkStatus();
}

Status VerbsEndpoint::CancelGrant(RemoteGrant grant) {
  MutexLock lock(&mutex_);
  HP_RETURN_IF_ERROR(CheckOpen());
  HP_RETURN_IF_ERROR(remote_.Take(grant, nullptr, nullptr).status());
  remote_places_.erase(grant.index);
  control_->Push({.type = ControlType::kCancel, .index = grant.index, .generation = grant.generation});
  Posted();
  return OkStatus();
}

Status VerbsEndpoint::Send(uint32_t type, std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxMessageBytes) {
    return InvalidArgument("a message of %zu bytes, at most %zu are allowed", bytes.size(), kMaxMessageBytes);
  }
  MutexLock lock(&mutex_);
  HP_RETURN_IF_ERROR(CheckOpen());
  HP_RETURN_IF_ERROR(control_->PushMessage(type, bytes));
  Posted();
  return OkStatus();
}

void VerbsEndpoint::Shutdown() {
  MutexLock lock(&mutex_);
  if (closed_ || std::exchange(ended_here_, true)) return;
  // Always by the progress thread: it sees whether both sides have ended.
  parts_.context.progress->Schedule(shared_from_this());
}

// --- Completions

void VerbsEndpoint::Run() {
  if (closed()) return;
  Status failed;
  {
    MutexLock lock(&mutex_);
    if (post_failure_.ok()) post_failure_ = Pump();
    failed = post_failure_;
  }
  if (!failed.ok()) Failed(failed, /*flushed=*/true);
  ActOnFailure();
  CloseIfEnded();
  if (!closed()) parts_.context.progress->Watch(shared_from_this());
}

bool VerbsEndpoint::Poll() {
  if (closed()) return false;
  const int count = PollOnce();
  if (count > 0 && !closed()) {
    MutexLock lock(&mutex_);
    if (post_failure_.ok()) post_failure_ = Pump();  // there may be room again
    if (!post_failure_.ok()) Failed(post_failure_, /*flushed=*/true);
  }
  ActOnFailure();
  CloseIfEnded();
  return count != 0;
}

void VerbsEndpoint::Sleep() {
  if (closed()) return;
  const int error = parts_.device->verbs()->ReqNotifyCq(cq_.get());
  if (error != 0) Failed(Unavailable("%s: no notification of completions: %s", name_.c_str(), std::strerror(error)));
  // What came before the queue was armed tells nobody.
  if (Poll() && !closed()) parts_.context.progress->Watch(shared_from_this());
}

/// @return completions taken, or -1.
int VerbsEndpoint::PollOnce() {
  ibv_wc completions[kPollBatch];
  const int count = parts_.device->verbs()->PollCq(cq_.get(), kPollBatch, completions);
  if (count < 0) Failed(Unavailable("%s: the completion queue failed", name_.c_str()));
  // Control passes bulk: what piled up while a handler was busy is mostly ends of writes.
  const auto is_control = [](const ibv_wc& completion) {
    return completion.status == IBV_WC_SUCCESS && (completion.wr_id & ReceivePool::kMark) != 0 &&
           completion.opcode == IBV_WC_RECV;
  };
  for (const bool control : {true, false}) {
    for (int i = 0; i < count; ++i) {
      if (is_control(completions[i]) == control) OnCompletion(completions[i]);
    }
  }
  return count;
}

void VerbsEndpoint::OnCompletion(const ibv_wc& completion) {
  // Of a completion in error nothing but status, id, queue pair and vendor's code is defined.
  if (completion.status != IBV_WC_SUCCESS) {
    Failed(Unavailable("%s", DescribeError(completion).c_str()), completion.status == IBV_WC_WR_FLUSH_ERR);
  } else if (completion.wr_id & ReceivePool::kMark) {
    OnReceived(completion);
  } else {
    OnSent(completion);
  }
}

void VerbsEndpoint::OnSent(const ibv_wc& completion) {
  std::vector<PlaceTag> ended;
  {
    MutexLock lock(&mutex_);
    const uint32_t qp = QueuePair::IdOf(completion.wr_id);
    if (qp == kControlQp) {
      control_->OnCompletion(completion.wr_id);
    } else {
      writes_->OnCompletion(qp - kControlQp - 1, completion.wr_id, &ended);
    }
  }
  for (const PlaceTag& tag : ended) parts_.context.handler->OnWriteEnded(peer_, tag, OkStatus());
}

void VerbsEndpoint::OnReceived(const ibv_wc& completion) {
  last_heard_ns_ = parts_.context.clock->NowNs();
  const bool immediate = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  ReceivePool* const pool = immediate ? parts_.device->data_receives() : parts_.device->control_receives();
  Status status;
  if (immediate) {
    status = OnImmediate(ntohl(completion.imm_data), completion.qp_num);
  } else {
    status = OnControl(pool->Buffer(completion.wr_id, completion.byte_len));
  }
  if (!status.ok()) Failed(BrokenRule(status).Prepend(name_));
  const Status recycled = pool->Recycle(completion.wr_id);
  if (!recycled.ok()) Failed(recycled.Prepend(name_));
}

Status VerbsEndpoint::OnControl(std::span<const std::byte> bytes) {
  do {
    std::span<const std::byte> payload;
    HP_ASSIGN_OR_RETURN(const ControlFrame frame, TakeControlFrame(&bytes, &payload));
    HP_RETURN_IF_ERROR(OnFrame(frame, payload));
  } while (!bytes.empty());
  return OkStatus();
}

Status VerbsEndpoint::OnFrame(const ControlFrame& frame, std::span<const std::byte> payload) {
  if (end_came_) return InvalidArgument("a frame after the end");
  if (in_message_ && (frame.type != ControlType::kMessage || frame.index != message_type_)) {
    return InvalidArgument("a frame of type %d within a message", static_cast<int>(frame.type));
  }
  switch (frame.type) {
    case ControlType::kMessage:
      return OnMessage(frame, payload);
    case ControlType::kGrant:
      return OnGrant(frame);
    case ControlType::kCancel:
      return OnCancel(frame);
    case ControlType::kEnd:
      end_came_ = true;
      return OkStatus();
  }
  return InternalError("frame type %d", static_cast<int>(frame.type));
}

Status VerbsEndpoint::OnMessage(const ControlFrame& frame, std::span<const std::byte> payload) {
  if (!in_message_ && !frame.more) {
    parts_.context.handler->OnMessage(peer_, frame.index, payload);
    return OkStatus();
  }
  if (!in_message_) message_.clear();
  if (message_.size() + payload.size() > kMaxMessageBytes) {
    return InvalidArgument("a message of more than %zu bytes", kMaxMessageBytes);
  }
  message_.insert(message_.end(), payload.begin(), payload.end());
  message_type_ = frame.index;
  in_message_ = frame.more;
  if (!in_message_) parts_.context.handler->OnMessage(peer_, frame.index, message_);
  return OkStatus();
}

Status VerbsEndpoint::OnGrant(const ControlFrame& frame) {
  const PlaceTag tag{frame.msg_id, frame.port};
  const RemoteGrant grant{frame.index, frame.generation};
  if (frame.parts < 1 || frame.parts > lanes_ || frame.index >= kMaxOpenGrants) {
    return InvalidArgument("grant %u over %d queue pairs", frame.index, frame.parts);
  }
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(remote_.Add(tag, grant, frame.bytes));
    remote_places_[frame.index] = {frame.address, frame.rkey, frame.parts};
  }
  parts_.context.handler->OnGranted(peer_, tag, grant, frame.bytes);
  return OkStatus();
}

Status VerbsEndpoint::OnCancel(const ControlFrame& frame) {
  PlaceTag tag;
  {
    MutexLock lock(&mutex_);
    HP_ASSIGN_OR_RETURN(const auto cancelled, landings_.Cancel({frame.index, frame.generation}));
    tag = cancelled.grant.tag;
  }
  parts_.context.handler->OnGrantEnded(peer_, tag, Cancelled("%s gave its grant back", name_.c_str()));
  return OkStatus();
}

Status VerbsEndpoint::OnImmediate(uint32_t immediate, uint32_t qp_number) {
  const auto lane = std::find_if(data_qps_.begin(), data_qps_.end(),
                                 [&](const auto& qp) { return qp->address().number == qp_number; });
  if (lane == data_qps_.end()) return InvalidArgument("an immediate on the control queue pair");
  {
    MutexLock lock(&mutex_);
    HP_RETURN_IF_ERROR(landings_.OnImmediate(immediate, static_cast<size_t>(lane - data_qps_.begin())));
  }
  DeliverArrived();
  return OkStatus();
}

void VerbsEndpoint::DeliverArrived() {
  while (!flushing_) {
    std::optional<LandingTable::Incoming> arrived;
    {
      MutexLock lock(&mutex_);
      arrived = landings_.TakeArrived();
    }
    if (!arrived || !Deliver(*std::move(arrived))) return;
  }
}

bool VerbsEndpoint::Deliver(LandingTable::Incoming incoming) {
  const OpenGrant& grant = incoming.grant;
  if (incoming.landing.needs_flush() && !grant.place.empty()) {
    const auto region = incoming.landing.region;
    const std::byte* const address = grant.place.data();
    flushing_ = std::move(incoming);
    parts_.flush->Flush(region, address,
                        [self = std::static_pointer_cast<VerbsEndpoint>(shared_from_this())](const Status& status) {
                          if (!self->flushing_) return;  // closed meanwhile
                          const PlaceTag tag = std::exchange(self->flushing_, std::nullopt)->grant.tag;
                          self->parts_.context.handler->OnGrantEnded(self->peer_, tag, status);
                          self->DeliverArrived();
                        });
    return false;
  }
  Status status;
  if (incoming.landing.staging) {
    status = incoming.landing.region->Copy(grant.place.data(), incoming.landing.staging.get(), grant.place.size());
  }
  parts_.context.handler->OnGrantEnded(peer_, grant.tag, status);
  return true;
}

// --- The end

std::string VerbsEndpoint::DescribeError(const ibv_wc& completion) {
  const double silent_s = static_cast<double>(parts_.context.clock->NowNs() - last_heard_ns_) * 1e-9;
  std::string message;
  if (const uint32_t qp = QueuePair::IdOf(completion.wr_id); (completion.wr_id & ReceivePool::kMark) != 0) {
    message = " receive";
  } else if (qp == kControlQp) {
    message = " control";
  } else {
    MutexLock lock(&mutex_);
    const OutgoingWrite* write = writes_->Find(qp - kControlQp - 1, completion.wr_id);
    if (write != nullptr) message = Format(" msg %" PRIu64 " port %u", write->tag.msg_id, write->tag.port);
  }
  return Format("qp %#x peer %s%s: %s (vendor code %#x), %.1f s after it was last heard", completion.qp_num,
                name_.c_str(), message.c_str(), WcStatusText(completion.status), completion.vendor_err, silent_s);
}

void VerbsEndpoint::Failed(const Status& status, bool flushed) {
  // A request that was merely flushed says less than what made the queue pair fail.
  if (!failure_.ok() && (!failure_is_flush_ || flushed)) return;
  failure_ = status;
  failure_is_flush_ = flushed;
}

void VerbsEndpoint::ActOnFailure() {
  if (failure_.ok() || closed()) return;
  // What came before it may say why: that comes first.
  while (PollOnce() > 0) {
  }
  Close(failure_);
}

void VerbsEndpoint::OnAsyncError(const std::string& what) {
  if (closed()) return;
  Failed(Unavailable("%s: %s", name_.c_str(), what.c_str()), /*flushed=*/true);
  ActOnFailure();
}

void VerbsEndpoint::OnLifeline(Lifeline::Event event, const std::string& reason) {
  if (closed()) return;
  // The peer said it after everything that it sent; its adapter is done with that, and ours has it.
  while (PollOnce() > 0) {
  }
  last_came_ |= event == Lifeline::Event::kLast;
  lifeline_ended_ |= event == Lifeline::Event::kEnd;
  // Of our own adapter's word and the peer's, the first one heard counts: they tell of the same thing.
  if (event == Lifeline::Event::kFailed) Failed(Unavailable("%s failed: %s", name_.c_str(), reason.c_str()));
  ActOnFailure();
  CloseIfEnded();
  if (closed() || !lifeline_ended_) return;
  Close(Unavailable("%s closed the connection without ending it", name_.c_str()));
}

void VerbsEndpoint::CloseIfEnded() {
  if (!end_came_ || closed()) return;
  bool done;
  {
    MutexLock lock(&mutex_);
    done = end_pushed_ && (last_came_ || (writes_->idle() && control_->idle()));
  }
  if (!done || flushing_) return;
  lifeline_->SendLast();
  Close(Cancelled("%s ended the connection", name_.c_str()));
}

void VerbsEndpoint::Destroy() {
  // In this order: queue pairs in error take nothing and read nothing; destroyed ones can't be brought back; then the
  // memory is nobody's.
  control_qp_->Fail();
  for (const auto& qp : data_qps_) qp->Fail();
  ibv_wc completion;
  while (parts_.device->verbs()->PollCq(cq_.get(), 1, &completion) > 0) {
    if (!(completion.wr_id & ReceivePool::kMark)) continue;
    const bool control = completion.qp_num == control_qp_->address().number;
    (void)(control ? parts_.device->control_receives() : parts_.device->data_receives())->Recycle(completion.wr_id);
  }
  MutexLock lock(&mutex_);
  control_.reset();
  data_qps_.clear();
  control_qp_.reset();
  cq_.reset();
  parts_.memory->DropOwner(epoch_);
  lifeline_.reset();
}

void VerbsEndpoint::Close(const Status& status) {
  VLOG(1) << "closing " << name_ << ": " << status;
  {
    MutexLock lock(&mutex_);
    if (closed_.exchange(true)) return;
  }
  if (status.code() != StatusCode::kCancelled) lifeline_->SendFailed(status.message().substr(0, kMaxHelloBytes));
  Destroy();
  std::vector<LandingTable::Incoming> grants;
  std::vector<PlaceTag> writes;
  {
    MutexLock lock(&mutex_);
    grants = landings_.CloseAll();
    writes = writes_->TakeAll();
  }
  if (flushing_) grants.insert(grants.begin(), std::move(*std::exchange(flushing_, std::nullopt)));
  for (const auto& grant : grants) parts_.context.handler->OnGrantEnded(peer_, grant.grant.tag, status);
  for (const PlaceTag& tag : writes) parts_.context.handler->OnWriteEnded(peer_, tag, status);
  parts_.context.handler->OnClosed(peer_, status);
}

void VerbsEndpoint::Abandon() {
  {
    MutexLock lock(&mutex_);
    if (closed_.exchange(true)) return;
  }
  if (control_qp_) Destroy();
  MutexLock lock(&mutex_);
  landings_.CloseAll();
  if (writes_) writes_->TakeAll();
  flushing_.reset();
}

}  // namespace hp
