// What a stranger says to hpserver, and what a folder, a Redis server or hpserver may tell a node.
#include "rendezvous/server_messages.h"

#include "test/fuzz/fuzz_job.h"
#include "transport/partial_transport.h"

#include "rendezvous/entry.h"
#include "rendezvous/table_server.h"

using namespace hp;

namespace {

// The two things that a server may do with a message.
struct CountingTransport : PartialTransport {
  Status Send(Rank, uint32_t type, std::span<const std::byte> bytes) override {
    fuzz::Expect(type == kAnswerMessage && bytes.size() <= kMaxMessageBytes);
    ++answered;
    return OkStatus();
  }
  void Break(Rank, const Status& cause) override {
    fuzz::Expect(!cause.ok());
    ++broken;
  }
  int answered = 0, broken = 0;
};

std::string SealedBody(FuzzedDataProvider* in) {
  const std::string body = in->ConsumeRandomLengthString();
  return in->ConsumeBool() ? EntrySeal(kServerSealRun, {}).Seal("tell", body) : body;
}

// What was accepted can be said again, and is accepted again.
template <typename Message>
void ExpectStable(const StatusOr<Message>& message, StatusOr<Message> (*parse)(std::string_view)) {
  if (message.ok()) fuzz::Expect(parse(message->SerializeAsString()).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider in(data, size);
  FakeClock clock;
  CountingTransport transport;
  TableServerOptions options{.run = "run", .keys = {}, .wanted = {.conv = 1, .fc = 1}, .planner = nullptr};
  options.clock = &clock;
  TableServer server(options, nullptr, &transport);
  TransportHandler* const handler = &server;
  int messages = 0;
  while (in.remaining_bytes() > 0 && messages < 64) {
    const Rank peer = kFirstClientRank + in.ConsumeIntegralInRange<Rank>(0, 3);
    if (in.ConsumeIntegralInRange<int>(0, 7) == 0) {
      handler->OnClosed(peer, OkStatus());
      clock.Advance(in.ConsumeIntegralInRange<int64_t>(0, 20 * kNsPerSecond));
      continue;
    }
    const std::string bytes = SealedBody(&in);
    handler->OnMessage(peer, in.ConsumeIntegralInRange<uint32_t>(0, 3), std::as_bytes(std::span(bytes)));
    fuzz::Expect(transport.answered + transport.broken == ++messages);
    ExpectStable(ParseNodeRecord(bytes), &ParseNodeRecord);
    ExpectStable(ParseTableRecord(bytes), &ParseTableRecord);
    ExpectStable(ParseRendezvousAnswer(bytes), &ParseRendezvousAnswer);
  }
  return 0;
}
