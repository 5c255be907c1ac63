// The frames of a peer past the handshake, in pieces, to an endpoint with open grants and writes under way. Every grant
// and the connection end exactly once.
#include "test/fuzz/stream.h"
#include "transport/tcp/endpoint.h"

#include <array>
#include <vector>

using namespace hp;

namespace {

constexpr std::array<size_t, 4> kPlaceBytes = {0, 16, 200, 30000};

class Handler : public TransportHandler {
 public:
  void OnConnected(Rank) override {}
  void OnConnectFailed(Rank, const Status&) override { std::abort(); }
  void OnGranted(Rank, const PlaceTag& tag, RemoteGrant grant, size_t bytes) override {
    if (endpoint == nullptr) return;
    // As a node does: it writes what was granted, or gives the grant back.
    if (bytes <= source.size()) {
      writes += endpoint->Write(tag, grant, std::span(source).first(bytes)).ok() ? 1 : 0;
    } else {
      (void)endpoint->CancelGrant(grant).ok();
    }
  }
  void OnGrantEnded(Rank, const PlaceTag&, const Status&) override { --grants; }
  void OnWriteEnded(Rank, const PlaceTag&, const Status&) override { --writes; }
  void OnMessage(Rank, uint32_t, std::span<const std::byte> bytes) override {
    if (!bytes.empty()) last = bytes.back();
  }
  void OnClosed(Rank, const Status& status) override {
    fuzz::Expect(!status.ok());
    ++closed;
  }

  TcpEndpoint* endpoint = nullptr;
  int grants = 0, writes = 0, closed = 0;
  std::byte last{};
  std::vector<std::byte> source = std::vector<std::byte>(64 << 10);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider in(data, size);
  std::array<std::vector<std::byte>, kPlaceBytes.size()> places;
  Handler handler;
  {
    ProgressThread progress(0);  // never started: this thread stands for it
    fuzz::Stream stream(progress.io());
    const auto endpoint = std::make_shared<TcpEndpoint>(in.ConsumeBool() ? 1 : kFirstClientRank, "peer", stream.Take(),
                                                        SocketLinkContext{&progress, &handler, Clock::Real()});
    endpoint->Open();
    handler.endpoint = endpoint.get();
    for (size_t i = 0; i < places.size(); ++i) {
      places[i].resize(kPlaceBytes[i]);
      handler.grants += endpoint->Grant({i, 7}, places[i]).ok() ? 1 : 0;
    }
    if (in.ConsumeBool()) endpoint->Shutdown();
    while (in.remaining_bytes() > 0 && handler.closed == 0) {
      stream.Send(in.ConsumeBytesAsString(in.ConsumeIntegralInRange<size_t>(1, fuzz::Stream::kMost)));
      while (endpoint->Poll()) continue;
      endpoint->Run();
    }
    stream.End();
    while (endpoint->Poll()) continue;
    endpoint->Run();
    endpoint->Break(Unavailable("the end of the input"));
  }
  fuzz::Expect(handler.closed == 1 && handler.grants == 0 && handler.writes == 0);
  return 0;
}
