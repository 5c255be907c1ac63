// A hello is compared in an order that decides what a difference means: job, table, rank and name tell whether the
// other side is another node of this job at all; only then do protocol, net, solver, start, seed and data count, where
// a difference means that a node of this job was started wrongly. Seeds and data sets are compared only where both
// sides have one. Of a node of another protocol nothing but those four is believed.
#include "scheduler/control/handshake.h"

#include "base/format.h"
#include "proto/node_protocol.h"
#include "proto/parse.h"

#include <algorithm>
#include <iterator>
#include <random>

namespace hp {
namespace {

// What strangers say goes into our log: not more than this of it.
constexpr size_t kMaxQuoted = 64;

std::string Quoted(const std::string& text) { return "\"" + Printable(text, kMaxQuoted) + "\""; }

/// What a peer gave as the reason for refusing us.
Status Said(const Status& reason) { return Status(reason.code(), Printable(reason.message())); }

std::string Node(const hp::Hello& hello) { return "node " + Quoted(hello.name()); }

std::string Hash(uint64_t hash) { return Format("%016llx", static_cast<unsigned long long>(hash)); }

/// "node "a" WHAT (hash 1) than node "b" (hash 2)".
std::string Another(const hp::Hello& a, const hp::Hello& b, const char* what, uint64_t hash_a, uint64_t hash_b) {
  return Format("%s %s (hash %s) than %s (hash %s)", Node(a).c_str(), what, Hash(hash_a).c_str(), Node(b).c_str(),
                Hash(hash_b).c_str());
}

std::string Shapes(const hp::Hello& hello) {
  std::string text;
  for (const DataShape& shape : hello.data_shape()) {
    text += Format("%s%lld %s records", text.empty() ? "" : ", ", static_cast<long long>(shape.records()),
                   shape.phase() > 0 ? "test" : "training");
    for (int i = 0; i < shape.data_size(); ++i) text += Format(i == 0 ? " of %d" : "x%d", shape.data(i));
    for (int i = 0; i < shape.label_size(); ++i) text += Format(i == 0 ? " with labels of %d" : "x%d", shape.label(i));
    for (const DataShape::Other& other : shape.other()) {
      text += other.dim_size() == 0 ? " and a number" : "";
      for (int i = 0; i < other.dim_size(); ++i) text += Format(i == 0 ? " and %d" : "x%d", other.dim(i));
    }
  }
  return text.empty() ? "hash " + Hash(hello.dataset_hash()) : text + ", hash " + Hash(hello.dataset_hash());
}

std::string StartDifference(const hp::Hello& a, const hp::Hello& b) {
  const bool one_only =
      (a.start_clock() == 0 && a.snapshot_hash() == 0) != (b.start_clock() == 0 && b.snapshot_hash() == 0);
  return Format("%s%s starts at iteration %lld, %s at iteration %lld", one_only ? "--resume on one node only: " : "",
                Node(a).c_str(), static_cast<long long>(a.start_clock()), Node(b).c_str(),
                static_cast<long long>(b.start_clock()));
}

bool BothAndDifferent(int64_t a, int64_t b, int64_t none) { return a != none && b != none && a != b; }

bool Read(std::string_view bytes, hp::Hello* hello) {
  return bytes.size() <= kMaxHelloBytes && ParseMessage(bytes, hello);
}

/// What differs between two nodes of one table; each difference names both.
std::vector<std::string> CompareNodes(const hp::Hello& a, const hp::Hello& b) {
  std::vector<std::string> found;
  if (a.net_hash() != b.net_hash()) found.push_back(Another(a, b, "runs a different net", a.net_hash(), b.net_hash()));
  if (a.solver_hash() != b.solver_hash()) {
    found.push_back(Another(a, b, "runs a different solver file", a.solver_hash(), b.solver_hash()));
  }
  if (a.has_resume_latest() != b.has_resume_latest()) {
    const bool a_does = a.has_resume_latest();
    found.push_back(Format("%s resumes from the latest snapshot (--resume=latest), %s does not",
                           Node(a_does ? a : b).c_str(), Node(a_does ? b : a).c_str()));
  } else if (a.start_clock() != b.start_clock()) {
    found.push_back(StartDifference(a, b));
  } else if (a.snapshot_hash() != b.snapshot_hash()) {
    found.push_back(Another(a, b, "resumes from a different snapshot", a.snapshot_hash(), b.snapshot_hash()));
  }
  if (a.weights_hash() != 0 && b.weights_hash() != 0 && a.weights_hash() != b.weights_hash()) {
    found.push_back(Another(a, b, "begins with different weights", a.weights_hash(), b.weights_hash()));
  }
  if (BothAndDifferent(a.random_seed(), b.random_seed(), -1)) {
    found.push_back(Format("%s has random_seed %lld, %s has %lld", Node(a).c_str(),
                           static_cast<long long>(a.random_seed()), Node(b).c_str(),
                           static_cast<long long>(b.random_seed())));
  }
  if (a.dataset_hash() != 0 && b.dataset_hash() != 0 && Shapes(a) != Shapes(b)) {
    found.push_back(Format("%s reads a different data set (%s) than %s (%s)", Node(a).c_str(), Shapes(a).c_str(),
                           Node(b).c_str(), Shapes(b).c_str()));
  }
  return found;
}

int64_t DrawSeed() { return static_cast<int64_t>(std::random_device()() & 0x7FFFFFFF); }

}  // namespace

JobHandshake::JobHandshake(const RoutingTable& table, const JobFacts& facts, Callbacks callbacks)
    : table_(table), callbacks_(std::move(callbacks)) {
  own_.set_protocol(kNodeProtocol);
  own_.set_job(table.job());
  own_.set_rank(facts.rank);
  own_.set_name(table.node(facts.rank).name);
  own_.set_net_hash(facts.net_hash);
  own_.set_solver_hash(facts.solver_hash);
  own_.set_table_hash(table.hash());
  own_.set_start_clock(facts.start_clock);
  own_.set_snapshot_hash(facts.snapshot_hash);
  if (facts.weights_hash != 0) own_.set_weights_hash(facts.weights_hash);
  own_.set_random_seed(facts.rank == 0 && facts.random_seed < 0 ? DrawSeed() : facts.random_seed);
  own_.set_dataset_hash(facts.dataset_hash);
  own_.set_host_id(facts.host_id);
  own_.set_program(facts.program);
  own_.set_instruction_set(facts.instruction_set);
  if (facts.lacks_bfloat16) own_.set_lacks_bfloat16(true);
  *own_.mutable_run() = facts.run;
  if (facts.folder_nonce != 0) own_.set_folder_nonce(facts.folder_nonce);
  if (facts.resume_latest) *own_.mutable_resume_latest() = *facts.resume_latest;
  for (const DataShape& shape : facts.data_shapes) *own_.add_data_shape() = shape;
  for (const CorePool& pool : facts.core_pools) {
    SharedCores* const shared = own_.add_shared_cores();
    shared->set_id(pool.id);
    shared->set_cores(pool.cores);
  }
  hellos_[facts.rank] = own_;
}

std::string JobHandshake::Hello() { return own_.SerializeAsString(); }

std::string JobHandshake::Answer(std::string_view bytes) {
  hp::Hello hello;
  if (!Read(bytes, &hello) || !hello.client()) return Hello();
  hp::Hello answer;
  answer.set_protocol(own_.protocol());
  answer.set_job(own_.job());
  answer.set_rank(own_.rank());
  answer.set_name(own_.name());
  return answer.SerializeAsString();
}

Rank JobHandshake::ClaimedRank(std::string_view bytes) const {
  hp::Hello hello;
  return Read(bytes, &hello) && !hello.client() ? std::max(hello.rank(), 0) : -1;
}

bool JobHandshake::ClaimsControl(std::string_view bytes) const {
  hp::Hello hello;
  return Read(bytes, &hello) && hello.client() && hello.control();
}

StatusOr<Rank> JobHandshake::Accept(std::string_view bytes) {
  hp::Hello hello;
  if (!Read(bytes, &hello)) return InvalidArgument("received an invalid hello: the peer is not an hpnode");
  if (hello.protocol() != kNodeProtocol) {
    const Status status = FailedPrecondition(
        "%s speaks version %u of the nodes' protocol, %s version %u; install the same hpnode everywhere",
        Node(hello).c_str(), hello.protocol(), Node(own_).c_str(), kNodeProtocol);
    return !hello.client() && CheckBelongs(hello).ok() ? GiveUpOn(hello.rank(), status) : status;
  }
  if (hello.client()) return AcceptClient(hello);
  HP_RETURN_IF_ERROR(CheckBelongs(hello));
  HP_RETURN_IF_ERROR(CheckResumeLatest(hello.resume_latest()).Prepend(Node(hello)));
  const std::vector<std::string> differences = CompareNodes(hello, own_);
  if (!differences.empty()) {
    std::string text;
    for (const std::string& difference : differences) text += (text.empty() ? "" : "; ") + difference;
    return GiveUpOn(hello.rank(), Status(StatusCode::kFailedPrecondition, text));
  }
  MutexLock lock(&mutex_);
  if (!given_up_.ok()) return given_up_.Prepend("the job cannot start");
  if (!connected_.contains(hello.rank())) hellos_[hello.rank()] = hello;
  return hello.rank();
}

Status JobHandshake::CheckJob(const hp::Hello& hello) const {
  if (hello.job() == own_.job()) return OkStatus();
  return FailedPrecondition("%s belongs to the job %s, which is not the one here", Node(hello).c_str(),
                            Quoted(hello.job()).c_str());
}

Status JobHandshake::CheckBelongs(const hp::Hello& hello) const {
  HP_RETURN_IF_ERROR(CheckJob(hello));
  if (hello.table_hash() != own_.table_hash()) {
    return FailedPrecondition("%s has a different routing table (hash %s) than the node here", Node(hello).c_str(),
                              Hash(hello.table_hash()).c_str());
  }
  if (hello.rank() < 0 || hello.rank() >= table_.size() || table_.node(hello.rank()).name != hello.name()) {
    return FailedPrecondition("%s claims rank %d, which contradicts the routing table", Node(hello).c_str(),
                              hello.rank());
  }
  if (hello.rank() == own_.rank()) return FailedPrecondition("%s was started twice", Node(own_).c_str());
  return OkStatus();
}

Status JobHandshake::GiveUpOn(Rank peer, const Status& difference) {
  if (!complete() && !IsConnected(peer)) GiveUp(difference);
  return difference;
}

StatusOr<Rank> JobHandshake::AcceptClient(const hp::Hello& hello) {
  HP_RETURN_IF_ERROR(CheckJob(hello));
  if (hello.net_hash() != 0 && hello.net_hash() != own_.net_hash()) {
    return FailedPrecondition("the client has a different net (hash %s) than the job", Hash(hello.net_hash()).c_str());
  }
  MutexLock lock(&mutex_);
  const auto first = connected_.lower_bound(kFirstClientRank);
  if (static_cast<size_t>(std::distance(first, connected_.end())) >= kMaxClients) {
    return ResourceExhausted("%s serves %zu clients already; try again later", Node(own_).c_str(), kMaxClients);
  }
  return (hello.control() ? kFirstControllerRank : kFirstClientRank) + accepted_clients_++;
}

void JobHandshake::OnConnected(Rank peer) {
  MutexLock lock(&mutex_);
  connected_.insert(peer);
}

void JobHandshake::OnClientGone(Rank client) {
  MutexLock lock(&mutex_);
  connected_.erase(client);
  addresses_.erase(client);
}

void JobHandshake::OnClientAddress(Rank client, const std::string& address) {
  MutexLock lock(&mutex_);
  addresses_[client] = address;
}

std::string JobHandshake::ClientAddress(Rank client) const {
  MutexLock lock(&mutex_);
  const auto found = addresses_.find(client);
  return found == addresses_.end() ? "" : found->second;
}

bool JobHandshake::IsConnected(Rank peer) const {
  MutexLock lock(&mutex_);
  return connected_.contains(peer);
}

// By a node, not by a client, which may come to a complete job.
void JobHandshake::OnRefused(Rank peer, const Status& reason) {
  if (peer >= table_.size()) return;
  const Status said = Said(reason);
  if (!complete()) GiveUp(said);
  if (callbacks_.on_refused) callbacks_.on_refused(peer, said);
}

void JobHandshake::OnRefusalSent(std::string_view bytes) {
  hp::Hello hello;
  if (!Read(bytes, &hello) || hello.client() || hello.table_hash() != own_.table_hash()) return;
  if (callbacks_.on_refused) callbacks_.on_refused(hello.rank(), OkStatus());
}

void JobHandshake::GiveUp(const Status& status) {
  const Status reason(StatusCode::kFailedPrecondition, status.message());
  {
    MutexLock lock(&mutex_);
    if (!given_up_.ok()) return;
    given_up_ = reason;
  }
  if (callbacks_.on_fatal) callbacks_.on_fatal(reason);
}

bool JobHandshake::complete() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(hellos_.size()) == table_.size();
}

std::optional<int64_t> JobHandshake::seed() const {
  MutexLock lock(&mutex_);
  for (const auto& [rank, hello] : hellos_) {
    if (hello.random_seed() >= 0) return hello.random_seed();
  }
  return std::nullopt;
}

std::optional<LatestSnapshot> JobHandshake::latest_snapshot() const {
  MutexLock lock(&mutex_);
  std::map<Rank, ResumeLatest> known;
  for (const auto& [rank, hello] : hellos_) {
    if (hello.has_resume_latest()) known[rank] = hello.resume_latest();
  }
  return ChooseLatest(known);
}

RunMark JobHandshake::run() const {
  MutexLock lock(&mutex_);
  const auto first = hellos_.find(0);
  return first == hellos_.end() ? RunMark() : first->second.run();
}

uint64_t JobHandshake::folder_nonce() const {
  MutexLock lock(&mutex_);
  const auto first = hellos_.find(0);
  return first == hellos_.end() ? 0 : first->second.folder_nonce();
}

std::vector<DataShape> JobHandshake::data_shapes() const {
  MutexLock lock(&mutex_);
  for (const auto& [rank, hello] : hellos_) {
    if (hello.data_shape_size() > 0) return {hello.data_shape().begin(), hello.data_shape().end()};
  }
  return {};
}

int JobHandshake::ThreadsOf(Rank rank) const {
  if (table_.node(rank).threads > 0) return table_.node(rank).threads;
  MutexLock lock(&mutex_);
  const auto own = hellos_.find(rank);
  if (own == hellos_.end() || own->second.shared_cores_size() == 0) return 1;
  int64_t threads = kMaxThreads;
  for (const SharedCores& pool : own->second.shared_cores()) {
    threads = std::min(threads, ShareOf(own->second, pool));
  }
  return static_cast<int>(std::max<int64_t>(1, threads));
}

SnapshotNode JobHandshake::DescribeNode(Rank rank) const {
  SnapshotNode node;
  node.set_name(table_.node(rank).name);
  MutexLock lock(&mutex_);
  const auto hello = hellos_.find(rank);
  if (hello == hellos_.end()) return node;
  node.set_program(hello->second.program());
  node.set_instruction_set(Printable(hello->second.instruction_set(), kMaxQuoted));
  return node;
}

bool JobHandshake::LacksBFloat16(Rank rank) const {
  MutexLock lock(&mutex_);
  const auto hello = hellos_.find(rank);
  return hello != hellos_.end() && hello->second.lacks_bfloat16();
}

std::vector<Rank> JobHandshake::NodesOnHostOf(Rank rank) const {
  MutexLock lock(&mutex_);
  const auto own = hellos_.find(rank);
  std::vector<Rank> ranks;
  for (const auto& [other, hello] : hellos_) {
    if (own != hellos_.end() && OnOneHost(own->second, hello)) ranks.push_back(other);
  }
  return ranks;
}

bool JobHandshake::OnOneHost(const hp::Hello& a, const hp::Hello& b) const {
  if (a.host_id() != 0 && b.host_id() != 0) return a.host_id() == b.host_id();
  return table_.node(a.rank()).host == table_.node(b.rank()).host;
}

int64_t JobHandshake::ShareOf(const hp::Hello& own, const SharedCores& pool) const {
  int64_t free_cores = pool.cores(), sharers = 0, before = 0;
  for (const auto& [rank, hello] : hellos_) {
    const auto same = [&pool](const SharedCores& other) { return other.id() == pool.id(); };
    if (!OnOneHost(own, hello) || std::none_of(hello.shared_cores().begin(), hello.shared_cores().end(), same))
      continue;
    free_cores -= table_.node(rank).threads;
    if (table_.node(rank).threads > 0) continue;
    ++sharers;
    before += rank < own.rank() ? 1 : 0;
  }
  // The first ones get what does not divide.
  return free_cores > 0 ? free_cores / sharers + (before < free_cores % sharers ? 1 : 0) : 0;
}

std::string ClientHandshake::Hello() {
  hp::Hello hello;
  hello.set_protocol(kNodeProtocol);
  hello.set_job(table_.job());
  hello.set_name("a client");
  hello.set_client(true);
  if (control_) hello.set_control(true);
  return hello.SerializeAsString();
}

StatusOr<Rank> ClientHandshake::Accept(std::string_view bytes) {
  hp::Hello hello;
  if (!Read(bytes, &hello) || hello.protocol() != kNodeProtocol)
    return InvalidArgument("the peer is no hpnode, or one of another version: use the tools that came with that one");
  if (hello.job() != table_.job() || hello.rank() < 0 || hello.rank() >= table_.size() ||
      table_.node(hello.rank()).name != hello.name()) {
    return FailedPrecondition("%s of the job %s answered, which is not in the routing table", Node(hello).c_str(),
                              Quoted(hello.job()).c_str());
  }
  return hello.rank();
}

void ClientHandshake::OnRefused(Rank, const Status& reason) { on_refused_(Said(reason)); }

}  // namespace hp
