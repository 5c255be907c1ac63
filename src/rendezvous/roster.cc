// Who is alive is known by changes alone: a record that was left behind by an earlier process, in a folder or a Redis
// server, never changes, and clocks of hosts are never compared.
#include "rendezvous/roster.h"

#include "base/format.h"
#include "base/host.h"
#include "base/words.h"

#include "rendezvous/entry.h"
#include <glog/logging.h>

#include <algorithm>
#include <tuple>

namespace hp {
namespace {

bool TakeRole(std::vector<NodeRecord>* rest, const std::string& role, int count, std::vector<NodeRecord>* chosen) {
  // Those that wish it before those that take any.
  for (const std::string& wish : {role, std::string()}) {
    for (auto it = rest->begin(); it != rest->end() && count > 0;) {
      if (it->role() != wish) {
        ++it;
        continue;
      }
      chosen->push_back(*it);
      it = rest->erase(it);
      --count;
    }
  }
  return count == 0;
}

RendezvousAnswer Answer(RendezvousAnswer::Kind kind, std::string text) {
  RendezvousAnswer answer;
  answer.set_kind(kind);
  answer.set_text(std::move(text));
  return answer;
}

const std::string* HostAmong(const std::vector<std::string>& hosts, const NodeRecord& record) {
  const auto it =
      std::find_if(hosts.begin(), hosts.end(), [&](const std::string& host) { return IsOnHost(record, host); });
  return it == hosts.end() ? nullptr : &*it;
}

}  // namespace

bool IsOnHost(const NodeRecord& record, const std::string& host) {
  const std::string& name = record.host_name();
  return !host.empty() && (name == host || name.substr(0, name.find('.')) == host ||
                           std::count(record.address().begin(), record.address().end(), BareHost(host)) > 0);
}

std::vector<NodeRecord> ChooseNodes(std::vector<NodeRecord> waiting, const NodesWanted& wanted) {
  std::erase_if(waiting, [&](const NodeRecord& record) { return HostAmong(wanted.exclude, record) != nullptr; });
  std::sort(waiting.begin(), waiting.end(), [](const NodeRecord& a, const NodeRecord& b) {
    return std::tuple(a.host_name(), a.address(0), a.port(), a.nonce()) <
           std::tuple(b.host_name(), b.address(0), b.port(), b.nonce());
  });
  std::vector<NodeRecord> chosen;
  if (wanted.any > 0) {
    if (std::ssize(waiting) < wanted.any) return {};
    waiting.resize(wanted.any);
    return waiting;
  }
  // Who has no wish must not be taken where a later role needs it: those with the wish go first in each role, and a
  // role that lacks some takes of the rest, which is enough or not whatever the order.
  if (!TakeRole(&waiting, "conv", wanted.conv, &chosen) || !TakeRole(&waiting, "fc", wanted.fc, &chosen) ||
      !TakeRole(&waiting, "ps", wanted.ps, &chosen)) {
    return {};
  }
  return chosen;
}

Roster::Roster(std::optional<NodesWanted> wanted, std::string request, const Clock* clock)
    : wanted_(wanted), request_(std::move(request)), clock_(clock), table_ns_(clock->NowNs()) {}

void Roster::Hear(const NodeRecord& record) {
  const int64_t now_ns = clock_->NowNs();
  if (!heard_.contains(record.nonce()) && heard_.size() >= kMostRendezvousNodes) return;
  const auto [it, added] = heard_.try_emplace(record.nonce(), Heard{record, now_ns, now_ns});
  Heard& heard = it->second;
  if (added || record.beat() <= heard.record.beat()) return;
  heard.record = record;
  heard.changed_ns = now_ns;
  heard.changed = true;
  heard.left = false;
}

void Roster::Leave(const std::string& nonce) {
  const auto it = heard_.find(nonce);
  if (it == heard_.end() || it->second.left) return;
  it->second.left = true;
  it->second.changed_ns = clock_->NowNs();
}

void Roster::SetTable(const TableRecord& table) {
  if (table_ && table_->incarnation() >= table.incarnation()) return;
  table_ = table;
  table_ns_ = clock_->NowNs();
}

bool Roster::Seated(const std::string& nonce) const {
  return table_ && std::any_of(table_->seat().begin(), table_->seat().end(),
                               [&nonce](const SeatRecord& seat) { return seat.nonce() == nonce; });
}

bool Roster::MayLive(const std::string& nonce) const {
  const auto it = heard_.find(nonce);
  if (it == heard_.end()) return clock_->NowNs() - table_ns_ < kSilenceNs;
  const Heard& heard = it->second;
  if (heard.record.state() == NodeRecord::ENDED) return false;
  return clock_->NowNs() - heard.changed_ns < (heard.left ? kGoneNs : kSilenceNs);
}

bool Roster::Waits(const Heard& heard) const {
  return heard.record.state() == NodeRecord::WAITING && heard.changed && !heard.left &&
         clock_->NowNs() - heard.changed_ns < kSilenceNs && !Seated(heard.record.nonce()) &&
         (heard.record.request().empty() || heard.record.request() == request_);
}

std::vector<NodeRecord> Roster::Waiting() const {
  std::vector<NodeRecord> waiting;
  for (const auto& [nonce, heard] : heard_) {
    if (Waits(heard)) waiting.push_back(heard.record);
  }
  return waiting;
}

const std::string* Roster::ExcludedBy(const NodeRecord& record) const {
  return wanted_ ? HostAmong(wanted_->exclude, record) : nullptr;
}

std::vector<std::string> Roster::LivingNodes() const {
  std::vector<std::string> names;
  if (!table_) return names;
  for (const SeatRecord& seat : table_->seat()) {
    if (MayLive(seat.nonce())) names.push_back(seat.node());
  }
  return names;
}

std::string Roster::OneWhoLives() const {
  const std::vector<std::string> living = LivingNodes();
  if (living.empty()) return "";
  for (const NodeConfig& node : table_->config().node()) {
    if (node.name() == living[0]) return living[0] + " on host " + node.host();
  }
  return living[0];
}

bool Roster::UnderWay(const Heard& newcomer) const {
  return std::all_of(table_->seat().begin(), table_->seat().end(), [&](const SeatRecord& seat) {
    const auto it = heard_.find(seat.nonce());
    return it != heard_.end() && MayLive(seat.nonce()) && !it->second.left &&
           it->second.changed_ns - newcomer.first_ns >= kSilenceNs;
  });
}

std::string Roster::WhatIsMissing() const {
  const std::vector<std::string> living = LivingNodes();
  if (!living.empty()) {
    return Format("until the nodes of incarnation %d have ended, or are silent for %d s: %s", table_->incarnation(),
                  static_cast<int>(kSilenceNs / kNsPerSecond), Join(living).c_str());
  }
  if (!wanted_) return "for a table: nobody has made one yet (--solver with --conv and --fc, or hproute --out)";
  std::vector<NodeRecord> asking = Waiting();
  std::erase_if(asking, [this](const NodeRecord& record) { return ExcludedBy(record) != nullptr; });
  std::string wanted = Format("for enough nodes: %zu ask", asking.size());
  if (wanted_->any > 0) return wanted + Format(", %d are wanted", wanted_->any);
  return wanted + Format(", %d conv, %d FC and %d ps are wanted", wanted_->conv, wanted_->fc, wanted_->ps);
}

RendezvousAnswer Roster::AnswerTo(const std::string& nonce) const {
  const Heard& heard = heard_.at(nonce);
  const NodeRecord& record = heard.record;
  if (table_ && (table_->incarnation() == 0 || Seated(nonce))) {
    RendezvousAnswer answer = Answer(RendezvousAnswer::TABLE, "");
    *answer.mutable_table() = *table_;
    return answer;
  }
  if (record.state() != NodeRecord::WAITING) {
    if (!table_ || table_->incarnation() <= record.incarnation()) return Answer(RendezvousAnswer::WAIT, "");
    return Answer(RendezvousAnswer::REFUSED,
                  Format("incarnation %d has taken the place of this one", table_->incarnation()));
  }
  if (const std::string* const host = ExcludedBy(record)) {
    return Answer(RendezvousAnswer::NOT_NEEDED, "this host is left out (--exclude=" + *host + ")");
  }
  if (table_ && std::count(table_->unneeded().begin(), table_->unneeded().end(), nonce) > 0) {
    return Answer(RendezvousAnswer::NOT_NEEDED,
                  Format("the plan needs %d nodes, and not this one", table_->seat_size()));
  }
  const std::string other = OneWhoLives();
  const std::string theirs = other.empty() ? request_ : table_->request();
  if (!record.request().empty() && !theirs.empty() && record.request() != theirs) {
    return Answer(
        RendezvousAnswer::REFUSED,
        Format("another run has this id%s: it was started with %s, this node with %s; choose another --run_id",
               other.empty() ? "" : (" (" + other + " runs)").c_str(), theirs.c_str(), record.request().c_str()));
  }
  if (table_ && UnderWay(heard)) {
    return Answer(RendezvousAnswer::REFUSED,
                  Format("the run is under way: all %d nodes of incarnation %d live, %s among them; choose another "
                         "--run_id for a second run",
                         table_->seat_size(), table_->incarnation(), other.c_str()));
  }
  return Answer(RendezvousAnswer::WAIT, WhatIsMissing());
}

std::vector<NodeRecord> Roster::DueNodes() const {
  if (!wanted_ || (table_ && table_->incarnation() == 0) || !LivingNodes().empty()) return {};
  return ChooseNodes(Waiting(), *wanted_);
}

std::vector<NodeRecord> Roster::WaitingBeside(const std::vector<NodeRecord>& due) const {
  std::vector<NodeRecord> rest = Waiting();
  std::erase_if(rest, [&due](const NodeRecord& one) {
    return std::any_of(due.begin(), due.end(),
                       [&one](const NodeRecord& other) { return one.nonce() == other.nonce(); });
  });
  return rest;
}

std::string Roster::Progress() const {
  const std::vector<std::string> living = LivingNodes();
  if (living.empty()) return "";
  int64_t iteration = 0;  // the node that holds the loss counts
  for (const SeatRecord& seat : table_->seat()) {
    const auto it = heard_.find(seat.nonce());
    if (it != heard_.end()) iteration = std::max(iteration, it->second.record.iteration());
  }
  return Format("incarnation %d: %zu of %d nodes live, iteration %lld", table_->incarnation(), living.size(),
                table_->seat_size(), static_cast<long long>(iteration));
}

std::vector<std::string> Roster::Forgettable() const {
  std::vector<std::string> nonces;
  for (const auto& [nonce, heard] : heard_) {
    if (!Seated(nonce) && !MayLive(nonce)) nonces.push_back(nonce);
  }
  return nonces;
}

}  // namespace hp
