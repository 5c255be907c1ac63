// A piece is written when two things have come together, in either order: its gradient is final (ready_) and its server
// has granted the place (granted_). Counters of open pieces turn their ends into those of parameters.
#include "solvers/exchange/server_client.h"

#include "glog/logging.h"

#include <utility>

namespace hp {

ServerClient::ServerClient(std::vector<Param> params, PeerLinks* links, Callbacks callbacks)
    : params_(std::move(params)), links_(links), callbacks_(std::move(callbacks)) {
  for (size_t p = 0; p < params_.size(); ++p) {
    index_[params_[p].param] = p;
    for (size_t i = 0; i < params_[p].pieces.size(); ++i) {
      CHECK(pieces_.emplace(params_[p].pieces[i].number, PieceAt{p, i}).second) << "two pieces of one number";
    }
  }
}

StatusOr<std::unique_ptr<ServerClient>> ServerClient::Create(std::vector<Param> params, PeerLinks* links,
                                                             Callbacks callbacks) {
  std::unique_ptr<ServerClient> client(new ServerClient(std::move(params), links, std::move(callbacks)));
  for (const Param& param : client->params_) {
    std::vector<std::span<float>> memory = param.values;
    memory.push_back(param.gradient);
    for (const std::span<float> part : memory) {
      HP_ASSIGN_OR_RETURN(auto registered, links->Register(std::as_writable_bytes(part)));
      client->registered_.push_back(std::move(registered));
    }
  }
  links->Begin(client.get());
  return client;
}

void ServerClient::Write(const PieceAt& at, const LinkPlace& place, const LinkGrant& grant) {
  const Param& param = params_[at.param];
  const Param::Piece& piece = param.pieces[at.piece];
  const std::span<const float> gradient = param.gradient.subspan(piece.begin, piece.count);
  WarnOfPost(links_->Write(piece.server, place, grant, std::as_bytes(gradient)));
}

// All pieces count as under way before the first of them is posted: it may end at once.
void ServerClient::Push(uint64_t clock, int param) {
  const size_t index = IndexOf(param);
  std::vector<std::pair<PieceAt, LinkGrant>> granted;
  {
    MutexLock lock(&mutex_);
    sending_[{clock, index}] = params_[index].pieces.size();
    for (size_t i = 0; i < params_[index].pieces.size(); ++i) {
      const LinkPlace place{clock, params_[index].pieces[i].number};
      if (const auto grant = granted_.extract(place)) {
        granted.emplace_back(PieceAt{index, i}, grant.mapped());
      } else {
        ready_[place] = {index, i};
      }
    }
  }
  for (const auto& [at, grant] : granted) Write(at, {clock, params_[at.param].pieces[at.piece].number}, grant);
}

void ServerClient::Pull(uint64_t clock, int param, std::span<float> values) {
  const Param& pulled = params_[IndexOf(param)];
  {
    MutexLock lock(&mutex_);
    coming_[{clock, IndexOf(param)}] = pulled.pieces.size();
  }
  for (const Param::Piece& piece : pulled.pieces) {
    const std::span<float> of_piece = values.subspan(piece.begin, piece.count);
    WarnOfPost(links_->Grant(piece.server, {clock, piece.number}, std::as_writable_bytes(of_piece)));
  }
}

void ServerClient::OnGranted(int, const LinkPlace& place, const LinkGrant& grant) {
  PieceAt at;
  {
    MutexLock lock(&mutex_);
    const auto ready = ready_.extract(place);
    if (!ready) {
      granted_[place] = grant;
      return;
    }
    at = ready.mapped();
  }
  Write(at, place, grant);
}

bool ServerClient::EndOne(Open* open, const LinkPlace& place) {
  MutexLock lock(&mutex_);
  const auto found = open->find({place.clock, pieces_.at(place.number).param});
  CHECK(found != open->end()) << "piece " << place.number << " of update " << place.clock << " was not under way";
  if (--found->second > 0) return false;
  open->erase(found);
  return true;
}

void ServerClient::OnArrived(int, const LinkPlace& place) {
  if (EndOne(&coming_, place)) callbacks_.on_values(place.clock, params_[pieces_.at(place.number).param].param);
}

void ServerClient::OnWritten(int, const LinkPlace& place) {
  if (EndOne(&sending_, place)) callbacks_.on_sent(place.clock, params_[pieces_.at(place.number).param].param);
}

}  // namespace hp
