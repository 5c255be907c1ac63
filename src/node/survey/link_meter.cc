// Latency: one ping at a time, each sent when the answer to the one before is there. The answer carries the other
// host's time, and the ping with the shortest round trip compares the clocks, as NTP does (RFC 5905): it is off by half
// of that at most. Bandwidth: the receiver keeps some places granted, grants each again when it is full, and stops
// after a second; it counts from the first arrival to the last, so that neither the start nor a sleeping thread counts.
#include "node/survey/link_meter.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace hp {
namespace {

constexpr size_t kMeterWarmUp = 20, kMeterPings = 200;
constexpr int64_t kPingLimitNs = kNsPerSecond, kStreamNs = kNsPerSecond;
// Small enough for slow links, and enough of them in flight for fast ones.
constexpr size_t kPlaceBytes = 256 << 10;
constexpr int kPlaces = 16;

int64_t SystemNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Both hosts are x86-64 or alike: little-endian, and IEEE 754.
template <typename Number>
std::span<const std::byte> NumberBytes(const Number& number) {
  return std::as_bytes(std::span(&number, 1));
}

template <typename Number>
StatusOr<Number> NumberIn(std::span<const std::byte> bytes) {
  Number number;
  if (bytes.size() != sizeof(number)) return FailedPrecondition("a message of another length than a survey's");
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

}  // namespace

LinkMeter::LinkMeter(Transport* transport, const Clock* clock)
    : transport_(transport), clock_(clock), places_(kPlaces * kPlaceBytes), source_(kPlaceBytes) {}

void LinkMeter::Measure(Rank peer, std::function<void(const PairReport&)> done) {
  peer_ = peer;
  done_ = std::move(done);
  report_.Clear();
  round_trips_ns_.clear();
  first_ping_ns_ = clock_->NowNs();
  (void)Ping();  // it fails only when the connection has, which is reported
}

Status LinkMeter::Ping() {
  ping_ns_ = clock_->NowNs();
  ping_system_ns_ = SystemNs();
  return transport_->Send(peer_, kPing, {});
}

Status LinkMeter::OnPong(int64_t remote_ns) {
  const int64_t now_ns = clock_->NowNs(), round_trip_ns = now_ns - ping_ns_;
  if (round_trips_ns_.empty() || round_trip_ns < *std::min_element(round_trips_ns_.begin(), round_trips_ns_.end())) {
    const int64_t ahead_ns = remote_ns - (ping_system_ns_ + round_trip_ns / 2);
    report_.set_clock_ahead_ms(static_cast<double>(ahead_ns) * 1e-6);
  }
  round_trips_ns_.push_back(round_trip_ns);
  if (round_trips_ns_.size() < kMeterWarmUp + kMeterPings && now_ns - first_ping_ns_ < kPingLimitNs) return Ping();
  const size_t warm_up = std::min(kMeterWarmUp, round_trips_ns_.size() / 2);
  const auto begin = round_trips_ns_.begin() + static_cast<ptrdiff_t>(warm_up);
  const auto middle = begin + (round_trips_ns_.end() - begin) / 2;
  std::nth_element(begin, middle, round_trips_ns_.end());
  report_.set_latency_us(static_cast<double>(*middle) * 1e-3 / 2);
  return transport_->Send(peer_, kGrantMe, {});
}

std::span<std::byte> LinkMeter::PlaceOf(const PlaceTag& tag) {
  return std::span(places_).subspan(tag.channel * kPlaceBytes, kPlaceBytes);
}

Status LinkMeter::Receive(Rank peer, std::function<Status(double)> then) {
  then_ = std::move(then);
  first_arrival_ns_.reset();
  arrived_ = 0;
  for (open_ = 0; open_ < kPlaces; ++open_) {
    const PlaceTag tag{next_id_++, static_cast<uint32_t>(open_)};
    HP_RETURN_IF_ERROR(transport_->Grant(peer, tag, PlaceOf(tag)));
  }
  return OkStatus();
}

Status LinkMeter::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant, size_t bytes) {
  if (bytes != source_.size()) return FailedPrecondition("a place of another size than a survey's");
  return transport_->Write(peer, tag, grant, source_);
}

Status LinkMeter::OnGrantEnded(Rank peer, const PlaceTag& tag) {
  last_arrival_ns_ = clock_->NowNs();
  if (first_arrival_ns_) arrived_ += kPlaceBytes;
  if (!first_arrival_ns_) first_arrival_ns_ = last_arrival_ns_;
  if (last_arrival_ns_ - *first_arrival_ns_ < kStreamNs) {
    return transport_->Grant(peer, {next_id_++, tag.channel}, PlaceOf(tag));
  }
  if (--open_ > 0) return OkStatus();
  const double ns = static_cast<double>(std::max<int64_t>(last_arrival_ns_ - *first_arrival_ns_, 1));
  return std::exchange(then_, nullptr)(static_cast<double>(arrived_) * 8 / ns);
}

Status LinkMeter::OnMessage(Rank peer, uint32_t type, std::span<const std::byte> bytes) {
  switch (type) {
    case kPing: {
      const int64_t now_ns = SystemNs();
      return transport_->Send(peer, kPong, NumberBytes(now_ns));
    }
    case kPong: {
      HP_ASSIGN_OR_RETURN(const int64_t remote_ns, NumberIn<int64_t>(bytes));
      return peer == peer_ ? OnPong(remote_ns) : FailedPrecondition("an answer that nobody waits for");
    }
    case kGrantMe:
      return Receive(peer, [this, peer](double speed) { return transport_->Send(peer, kArrived, NumberBytes(speed)); });
    case kArrived: {
      HP_ASSIGN_OR_RETURN(const double there, NumberIn<double>(bytes));
      report_.set_there_gbit_per_s(there);
      return Receive(peer, [this](double speed) {
        report_.set_back_gbit_per_s(speed);
        std::exchange(done_, nullptr)(report_);
        return OkStatus();
      });
    }
    default:
      return FailedPrecondition("a message that no survey has");
  }
}

}  // namespace hp
