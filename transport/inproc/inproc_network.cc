#include "transport/inproc/inproc_network.h"

#include "base/mutex.h"
#include "base/philox.h"
#include "transport/inproc/inproc_transport.h"

#include <map>
#include <tuple>
#include <utility>

namespace hp {
namespace {

class DelaySource {
 public:
  DelaySource(uint64_t seed, int max_us) : seed_(seed), max_ns_(int64_t{max_us} * 1000) {}

  int64_t Next(Rank from, Rank to, bool bulk) {
    uint64_t count = 0;
    {
      MutexLock lock(&mutex_);
      count = counts_[{from, to, bulk}]++;
    }
    const uint64_t link = static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to) << 1 | (bulk ? 1 : 0);
    return static_cast<int64_t>(UnitFloat(Philox4x32(seed_, link, count)[0]) * static_cast<float>(max_ns_));
  }

 private:
  const uint64_t seed_;
  const int64_t max_ns_;
  Mutex mutex_;
  std::map<std::tuple<Rank, Rank, bool>, uint64_t> counts_ HP_GUARDED_BY(mutex_);
};

}  // namespace

std::function<int64_t(Rank, Rank, bool)> RandomDelays(uint64_t seed, int max_us) {
  auto source = std::make_shared<DelaySource>(seed, max_us);
  return [source](Rank from, Rank to, bool bulk) { return source->Next(from, to, bulk); };
}

InprocNetwork::InprocNetwork(InprocOptions options) : hub_(std::make_shared<InprocHub>(std::move(options))) {}

std::unique_ptr<Transport> InprocNetwork::Create(Rank rank) {
  return std::make_unique<InprocTransport>(hub_, rank, false);
}

std::unique_ptr<Transport> InprocNetwork::CreateClient(Rank server) {
  return std::make_unique<InprocTransport>(hub_, server, true);
}

void InprocNetwork::Cut(Rank a, Rank b) {
  MutexLock lock(&hub_->mutex);
  const auto node = hub_->nodes.find(a);
  if (node == hub_->nodes.end()) return;
  node->second.mailbox->Post(0, false, [transport = node->second.transport, b] { transport->Cut(b); });
}

}  // namespace hp
