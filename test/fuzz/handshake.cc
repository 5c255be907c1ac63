// The records of a stranger, in pieces, before and after this side's own: a handshake with a node of a job, with its
// real policy, or with a client; with a token or without.
#include "transport/connect/handshake.h"

#include "scheduler/control/handshake.h"
#include "test/fuzz/fuzz_job.h"
#include "test/fuzz/stream.h"

using namespace hp;

namespace {

JobFacts FactsOf(Rank rank) {
  return {.rank = rank, .net_hash = 0x11, .solver_hash = 0x22, .random_seed = 1, .resume_latest = ResumeLatest()};
}

// The record of a node of the job or of a client, perhaps with one wrong byte; or nothing. Hashes of the table can't be
// guessed.
std::string RealHello(FuzzedDataProvider* in, const RoutingTable& table) {
  const Rank speaker = in->ConsumeIntegralInRange<Rank>(0, 4);
  if (speaker == 0) return "";
  const std::string body = speaker < 4 ? JobHandshake(table, FactsOf(speaker), {}).Hello()
                                       : ClientHandshake(table, [](const Status&) {}).Hello();
  const auto preamble = EncodePreamble({.kind = RecordKind::kHello, .length = static_cast<uint32_t>(body.size())});
  std::string record(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  record += body;
  if (in->ConsumeBool()) {
    const size_t at = in->ConsumeIntegralInRange<size_t>(0, record.size() - 1);
    record[at] = static_cast<char>(record[at] ^ in->ConsumeIntegral<char>());
  }
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto table = MakeTable(kTable);
  FuzzedDataProvider in(data, size);
  const bool accepted = in.ConsumeBool(), client = in.ConsumeBool();
  JobHandshake job(table, FactsOf(0), {});
  if (in.ConsumeBool()) (void)job.Accept(JobHandshake(table, FactsOf(3), {}).Hello()).ok();
  if (in.ConsumeBool()) job.GiveUp(FailedPrecondition("given up"));
  ClientHandshake puller(table, [](const Status&) {});
  HandshakePolicy* const policy = client ? static_cast<HandshakePolicy*>(&puller) : &job;

  boost::asio::io_context io(1);
  fuzz::Stream stream(&io);
  int ends = 0;
  Handshake::Callbacks callbacks;
  callbacks.hello = [policy](std::string_view to) { return to.empty() ? policy->Hello() : policy->Answer(to); };
  callbacks.judge = [policy](std::string_view hello, const Proof*) -> StatusOr<Rank> {
    (void)policy->ClaimedRank(hello);
    return policy->Accept(hello);
  };
  callbacks.done = [&](const std::shared_ptr<Handshake>& ended, const Handshake::Result& result) {
    ++ends;
    fuzz::Expect(result.status.ok() == (result.end == Handshake::End::kConnected));
    if (result.end == Handshake::End::kRefusedUs) policy->OnRefused(std::max(result.rank, 0), result.status);
    if (result.end == Handshake::End::kRefused) policy->OnRefusalSent(ended->hello());
    if (result.end == Handshake::End::kConnected && !client) job.OnConnected(result.rank);
  };
  (void)job.latest_snapshot();
  const Proof::Self self{.client = client, .accepted = accepted, .dialed = 1};
  const JobKeys token{.node = true};
  auto proof = in.ConsumeBool() ? std::make_unique<Proof>(&token, self) : nullptr;
  const auto handshake = std::make_shared<Handshake>(stream.Take(), accepted, 0, std::move(proof), callbacks);
  handshake->Start();
  if (const std::string hello = RealHello(&in, table); !hello.empty()) stream.Send(hello);
  io.poll();
  while (in.remaining_bytes() > 0 && ends == 0) {
    stream.Send(in.ConsumeBytesAsString(in.ConsumeIntegralInRange<size_t>(1, fuzz::Stream::kMost)));
    io.poll();
  }
  stream.End();
  io.poll();
  handshake->Drop("too slow");
  fuzz::Expect(ends == 1);
  (void)job.ThreadsOf(0);
  return 0;
}
