// Set-up, posts and the posting of work requests; endpoint_receive.cc has completions and frames, endpoint_close.cc
// failures and the end. A post changes the core and queues in the sender under one lock, and pumps there; so work
// requests are posted in the order in which the core accepted them.
#include "transport/verbs/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hp {
namespace {

// Why a completion queue is never overrun: each entry of the three queues that feed it has one completion at most.
int CqEntries(const VerbsSettings& settings) {
  return static_cast<int>(settings.send_depth * (1 + static_cast<uint32_t>(settings.qps_per_connection)) +
                          settings.control_receives + settings.data_receives);
}

}  // namespace

StatusOr<std::shared_ptr<VerbsEndpoint>> VerbsEndpoint::Create(Rank peer, const std::string& name, uint32_t epoch,
                                                               Parts parts) {
  std::shared_ptr<VerbsEndpoint> endpoint(new VerbsEndpoint(peer, name, epoch, std::move(parts)));
  HP_RETURN_IF_ERROR(endpoint->Prepare());
  return endpoint;
}

VerbsEndpoint::VerbsEndpoint(Rank peer, std::string name, uint32_t epoch, Parts parts)
    : peer_(peer), epoch_(epoch), parts_(std::move(parts)), core_(std::move(name)) {}

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
  MutexLock lock(&core_.mutex);
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
  if (parts_.device->settings().setup == QpSetup::kRdmaCm) {
    // On Ethernet a GID is the IP address of its network interface; on InfiniBand it is none.
    const Gid ip = address.ethernet ? address.gid : GidOfAddress(parts_.device->ip_address());
    HP_ASSIGN_OR_RETURN(cm_, CmConnector::Open(parts_.device, parts_.context.progress->io(),
                                               {.peer = core_.name(),
                                                .address = ip,
                                                .listens = parts_.context.rank < peer_,
                                                .epoch = epoch_,
                                                .deadline_ms = parts_.context.setup_deadline_ms * 3 / 4}));
    cm_->AddTo(&setup);
  }
  return setup;
}

StatusOr<Path> VerbsEndpoint::PathTo(const VerbsSetup& theirs) {
  Path path{.port = parts_.device->port(),
            .gid_index = gid_.index,
            .mtu = std::min(parts_.device->mtu(), static_cast<ibv_mtu>(theirs.mtu)),
            .peer = {.lid = theirs.lid, .ethernet = theirs.ethernet}};
  std::copy(std::begin(theirs.gid), std::end(theirs.gid), path.peer.gid.begin());
  if (parts_.device->address(gid_).ethernet != theirs.ethernet) {
    return FailedPrecondition("one side is on Ethernet (RoCE), the other on InfiniBand");
  }
  if (theirs.by_cm != (cm_ != nullptr)) {
    return FailedPrecondition("only %s connects queue pairs by librdmacm (setup)",
                              cm_ ? "this side" : "the other side");
  }
  return path;
}

void VerbsEndpoint::Connect(const VerbsSetup& theirs, std::function<void(const Status&)> done) {
  const StatusOr<Path> path = PathTo(theirs);
  if (!path.ok()) return done(path.status());
  // Both sides use as many as the one with fewer has.
  data_qps_.resize(std::min(data_qps_.size(), theirs.qps.size() - 1));
  std::vector<QueuePair*> lanes;
  for (const auto& qp : data_qps_) lanes.push_back(qp.get());
  lanes_ = lanes.size();
  inline_bytes_ = lanes[0]->inline_bytes();
  const uint64_t max_request =
      std::min<uint64_t>(parts_.device->max_message(), parts_.device->settings().max_write_bytes);
  VLOG(1) << core_.name() << ": " << (cm_ ? "by librdmacm, " : "") << "GID "
          << GidText(parts_.device->address(gid_).gid) << " to " << GidText(path->peer.gid) << ", MTU "
          << (128 << path->mtu) << ", " << lanes_ << " data queue pairs, epochs " << epoch_ << " and " << theirs.epoch;
  {
    MutexLock lock(&core_.mutex);
    control_->Limit(theirs.control_bytes);
    writes_ = std::make_unique<WriteSender>(std::move(lanes), max_request);
  }
  cm_ ? ConnectByCm(theirs, path->mtu, std::move(done)) : done(ConnectDirectly(*path, theirs));
}

Status VerbsEndpoint::ConnectDirectly(const Path& path, const VerbsSetup& theirs) {
  const VerbsSettings& settings = parts_.device->settings();
  HP_RETURN_IF_ERROR(control_qp_->Connect(path, {theirs.qps[0].number, theirs.qps[0].psn}, settings));
  for (size_t i = 0; i < data_qps_.size(); ++i) {
    HP_RETURN_IF_ERROR(data_qps_[i]->Connect(path, {theirs.qps[1 + i].number, theirs.qps[1 + i].psn}, settings));
  }
  return OkStatus();
}

void VerbsEndpoint::ConnectByCm(const VerbsSetup& theirs, ibv_mtu mtu, std::function<void(const Status&)> done) {
  std::vector<QueuePair*> qps = {control_qp_.get()};
  for (const auto& qp : data_qps_) qps.push_back(qp.get());
  const std::weak_ptr<CqUser> weak = weak_from_this();
  const auto ended = [weak](const std::string& what) {
    if (const auto self = weak.lock()) static_cast<VerbsEndpoint*>(self.get())->OnCmEnded(what);
  };
  cm_->Connect(theirs, std::move(qps), mtu, {.connected = std::move(done), .ended = ended});
}

void VerbsEndpoint::Open(std::unique_ptr<ByteStream> lifeline) {
  last_heard_ns_ = parts_.context.clock->NowNs();
  const auto self = std::static_pointer_cast<VerbsEndpoint>(shared_from_this());
  {
    MutexLock lock(&core_.mutex);
    core_.Open();
  }
  parts_.context.handler->OnConnected(peer_);
  lifeline_ = std::make_unique<Lifeline>(std::move(lifeline), [self](Lifeline::Event event, const std::string& reason) {
    self->OnLifeline(event, reason);
  });
  parts_.context.progress->Watch(self);
}

// --- Posts

uint16_t VerbsEndpoint::PartsOf(size_t bytes) const {
  const size_t wanted = bytes / parts_.device->settings().split_bytes;
  return static_cast<uint16_t>(std::clamp<size_t>(wanted, 1, lanes_));
}

Status VerbsEndpoint::Pump() {
  // END comes after everything else has arrived: nothing orders it behind the writes on other queue pairs.
  HP_RETURN_IF_ERROR(writes_->Pump());
  if (core_.ended_here() && !end_pushed_ && writes_->idle()) {
    end_pushed_ = true;
    control_->Push({.type = FrameType::kEnd});
  }
  return control_->Pump(end_pushed_);
}

void VerbsEndpoint::PostedControl() {
  last_sent_ns_ = parts_.context.clock->NowNs();
  Posted();
}

void VerbsEndpoint::Posted() {
  const bool inside = parts_.context.progress->Inside();  // what a handler posts goes together when it returns
  if (!inside && post_failure_.ok()) post_failure_ = Pump();
  if (inside || !post_failure_.ok()) parts_.context.progress->Schedule(shared_from_this());
}

Status VerbsEndpoint::Grant(const PlaceTag& tag, std::span<std::byte> place) {
  if (closed()) return Unavailable("%s is not connected", core_.name().c_str());  // ahead of the registration
  HP_ASSIGN_OR_RETURN(Landing landing, parts_.memory->OpenPlace(epoch_, place));
  FrameHeader frame{.type = FrameType::kGrant,
                    .parts = PartsOf(place.size()),
                    .msg_id = tag.msg_id,
                    .bytes = place.size(),
                    .at = landing.address,
                    .channel = tag.channel,
                    .rkey = landing.rkey};
  MutexLock lock(&core_.mutex);
  HP_ASSIGN_OR_RETURN(const RemoteGrant grant, core_.Grant(tag, place));
  landings_.Open(grant, std::move(landing), frame.parts);
  frame.index = grant.index;
  frame.generation = grant.generation;
  control_->Push(frame);
  PostedControl();
  return OkStatus();
}

Status VerbsEndpoint::Write(const PlaceTag& tag, RemoteGrant grant, std::span<const std::byte> source) {
  if (closed()) return Unavailable("%s is not connected", core_.name().c_str());  // ahead of the registration
  OutgoingWrite write{.tag = tag, .grant = grant, .bytes = source.size()};
  HP_ASSIGN_OR_RETURN(write.source, parts_.memory->OpenSource(source, inline_bytes_));
  MutexLock lock(&core_.mutex);
  HP_ASSIGN_OR_RETURN(write.place, core_.UseGrant(tag, grant, source.size()));
  writes_->Push(std::move(write));
  Posted();
  return OkStatus();
}

Status VerbsEndpoint::CancelGrant(RemoteGrant grant) {
  MutexLock lock(&core_.mutex);
  HP_RETURN_IF_ERROR(core_.ReturnGrant(grant));
  control_->Push({.type = FrameType::kCancel, .index = grant.index, .generation = grant.generation});
  PostedControl();
  return OkStatus();
}

Status VerbsEndpoint::Send(uint32_t type, std::span<const std::byte> bytes) {
  MutexLock lock(&core_.mutex);
  HP_RETURN_IF_ERROR(core_.CheckMessage(bytes.size()));
  HP_RETURN_IF_ERROR(control_->PushMessage(type, bytes));
  PostedControl();
  return OkStatus();
}

// A failure is for Run, which the post has scheduled.
void VerbsEndpoint::Flush() {
  MutexLock lock(&core_.mutex);
  if (core_.CheckOpen().ok() && parts_.context.progress->Inside() && post_failure_.ok()) post_failure_ = Pump();
}

void VerbsEndpoint::Shutdown() {
  MutexLock lock(&core_.mutex);
  if (!core_.EndHere()) return;
  // Always by the progress thread: it sees whether both sides have ended.
  parts_.context.progress->Schedule(shared_from_this());
}

}  // namespace hp
