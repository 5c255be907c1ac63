// What a peer sends while RDMA is set up over the connection, and the frames on the control queue pair after it. The
// first byte chooses.
#include "test/fuzz/stream.h"
#include "transport/verbs/frames.h"
#include "transport/verbs/setup_exchange.h"

#include <cstring>

using namespace hp;

namespace {

const VerbsSetup kOurs{.epoch = 1, .control_bytes = 4096, .mtu = 3, .qps = {{0x91, 1}, {0x92, 2}}};

void Decode(const std::string& bytes) {
  if (const auto setup = DecodeSetup(bytes); setup.ok()) {
    fuzz::Expect(setup->qps.size() <= 1 + kMaxDataQps);
    const auto again = DecodeSetup(EncodeSetup(*setup));
    fuzz::Expect(again.ok() && again->fault.size() <= setup->fault.size() && again->cm_nonce == setup->cm_nonce);
  }
  const auto view = std::as_bytes(std::span(bytes));
  if (const auto hello = DecodeCmHello(view); hello.ok()) {
    std::byte encoded[kCmHelloBytes];
    EncodeCmHello(*hello, encoded);
    fuzz::Expect(std::memcmp(encoded, bytes.data(), kCmHelloBytes) == 0);
  }
  std::span<const std::byte> rest = view, payload;
  while (!rest.empty()) {
    const auto frame = TakeControlFrame(&rest, &payload);
    if (!frame.ok()) break;
    fuzz::Expect(payload.size() == frame->length && frame->type != FrameType::kData);
  }
}

// @param later whether our queue pairs are connected only when all was received.
void Exchange(FuzzedDataProvider* in) {
  const bool fault = in->ConsumeBool(), fails = in->ConsumeBool(), later = in->ConsumeBool();
  boost::asio::io_context io(1);
  fuzz::Stream stream(&io);
  int ends = 0;
  std::function<void(const Status&)> connected;
  const Status said = fails ? FailedPrecondition("no port") : OkStatus();
  SetupExchange::Callbacks callbacks;
  callbacks.connect = [&](const VerbsSetup&, std::function<void(const Status&)> done) {
    if (!later) return done(said);
    connected = std::move(done);
  };
  callbacks.done = [&](const std::shared_ptr<SetupExchange>&, const SetupExchange::Result& result) {
    ++ends;
    fuzz::Expect(result.status.ok() == (result.end == SetupExchange::End::kVerbs));
  };
  const auto exchange =
      std::make_shared<SetupExchange>(stream.Take(), fault ? VerbsSetup{.fault = "no device"} : kOurs, 1000, callbacks);
  exchange->Start();
  while (in->remaining_bytes() > 0 && ends == 0) {
    stream.Send(in->ConsumeBytesAsString(in->ConsumeIntegralInRange<size_t>(1, fuzz::Stream::kMost)));
    io.poll();
  }
  if (connected) connected(said);
  stream.End();
  io.poll();
  fuzz::Expect(ends <= 1);
  exchange->Stop();
  io.poll();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider in(data, size);
  if (in.ConsumeBool()) {
    Exchange(&in);
  } else {
    Decode(in.ConsumeRemainingBytesAsString());
  }
  return 0;
}
