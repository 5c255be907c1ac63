// Places of gradients go round: those of update t are granted again, for t + ahead, when they have been added up.
// Values go out as gradients come in at the replicas: when they are new (ready_) and the replica has let them in
// (granted_). An update overwrites the values that were served `ahead` updates before, so it waits until all of those
// are sent.
#include "solvers/exchange/parameter_server.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

constexpr size_t kLine = 16;  // floats in 64 bytes

size_t Rounded(size_t count) { return (count + kLine - 1) / kLine * kLine; }

}  // namespace

ParameterServer::ParameterServer(Options options, PeerLinks* links, GradientsSink on_gradients)
    : options_(std::move(options)), links_(links), on_gradients_(std::move(on_gradients)) {
  for (const Param& param : options_.params) {
    const size_t index = begins_.size();
    index_[param.param] = index;
    CHECK(of_number_.emplace(param.number, index).second) << "two slices of one number";
    begins_.push_back(elements_);
    elements_ += Rounded(param.count);
  }
}

size_t ParameterServer::BytesFor(const Options& options) {
  size_t elements = 0;
  for (const Param& param : options.params) elements += Rounded(param.count);
  return elements * sizeof(float) * static_cast<size_t>(options.ahead) * static_cast<size_t>(options.replicas);
}

StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Create(Options options, PeerLinks* links,
                                                                   GradientsSink on_gradients) {
  std::unique_ptr<ParameterServer> server(new ParameterServer(std::move(options), links, std::move(on_gradients)));
  HP_ASSIGN_OR_RETURN(server->places_, links->Allocate(BytesFor(server->options_)));
  std::vector<std::span<std::byte>> memory = {server->places_.span()};
  for (const Param& param : server->options_.params) {
    for (const std::span<float> values : param.values) memory.push_back(std::as_writable_bytes(values));
  }
  for (const std::span<std::byte> part : memory) {
    HP_ASSIGN_OR_RETURN(auto registered, links->Register(part));
    server->registered_.push_back(std::move(registered));
  }
  links->Begin(server.get());
  return server;
}

std::span<float> ParameterServer::PlaceOf(uint64_t clock, size_t index, int replica) const {
  const size_t round = clock % static_cast<uint64_t>(options_.ahead);
  const size_t at = (round * static_cast<size_t>(options_.replicas) + static_cast<size_t>(replica)) * elements_;
  return {places_.floats() + at + begins_[index], options_.params[index].count};
}

void ParameterServer::Grant(uint64_t clock, size_t index) {
  if (static_cast<int64_t>(clock) >= options_.end_clock) return;
  for (int replica = 0; replica < options_.replicas; ++replica) {
    WarnOfPost(links_->Grant(replica, {clock, options_.params[index].number},
                             std::as_writable_bytes(PlaceOf(clock, index, replica))));
  }
}

void ParameterServer::Start() {
  for (int round = 0; round < options_.ahead; ++round) {
    for (size_t index = 0; index < options_.params.size(); ++index) {
      Grant(static_cast<uint64_t>(options_.start_clock + round), index);
    }
  }
}

std::span<const float> ParameterServer::GradientOf(uint64_t clock, int param, int replica) const {
  return PlaceOf(clock, IndexOf(param), replica);
}

void ParameterServer::Release(uint64_t clock, int param) {
  Grant(clock + static_cast<uint64_t>(options_.ahead), IndexOf(param));
}

void ParameterServer::Serve(uint64_t clock, int param, std::span<const float> values) {
  const size_t index = IndexOf(param);
  const LinkPlace place{clock, options_.params[index].number};
  std::vector<std::pair<int, LinkGrant>> granted;
  {
    MutexLock lock(&mutex_);
    unsent_[{clock, index}] = options_.replicas;
    for (int replica = 0; replica < options_.replicas; ++replica) {
      if (const auto grant = granted_.extract({replica, place})) {
        granted.emplace_back(replica, grant.mapped());
      } else {
        ready_[{replica, place}] = values;
      }
    }
  }
  for (const auto& [replica, grant] : granted) WarnOfPost(links_->Write(replica, place, grant, std::as_bytes(values)));
}

bool ParameterServer::TakeIfReady(const Update& update) {
  const auto arrived = arrived_.find(update);
  if (arrived == arrived_.end() || arrived->second < options_.replicas) return false;
  const auto [clock, index] = update;
  const uint64_t ahead = static_cast<uint64_t>(options_.ahead);
  if (clock >= ahead && unsent_.contains({clock - ahead, index})) return false;
  arrived_.erase(arrived);
  return true;
}

void ParameterServer::OnGranted(int replica, const LinkPlace& place, const LinkGrant& grant) {
  std::span<const float> values;
  {
    MutexLock lock(&mutex_);
    const auto ready = ready_.extract({replica, place});
    if (!ready) {
      granted_[{replica, place}] = grant;
      return;
    }
    values = ready.mapped();
  }
  WarnOfPost(links_->Write(replica, place, grant, std::as_bytes(values)));
}

void ParameterServer::OnArrived(int, const LinkPlace& place) {
  const Update update{place.clock, of_number_.at(place.number)};
  {
    MutexLock lock(&mutex_);
    ++arrived_[update];
    if (!TakeIfReady(update)) return;
  }
  on_gradients_(place.clock, options_.params[update.second].param);
}

void ParameterServer::OnWritten(int, const LinkPlace& place) {
  const size_t index = of_number_.at(place.number);
  const uint64_t next = place.clock + static_cast<uint64_t>(options_.ahead);
  {
    MutexLock lock(&mutex_);
    const auto unsent = unsent_.find({place.clock, index});
    CHECK(unsent != unsent_.end()) << "sent values of update " << place.clock << " that nobody served";
    if (--unsent->second > 0) return;
    unsent_.erase(unsent);
    if (!TakeIfReady({next, index})) return;
  }
  on_gradients_(next, options_.params[index].param);
}

}  // namespace hp
