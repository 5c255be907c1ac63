#include "report/gauge.h"

#include "base/format.h"
#include "proto/wire.pb.h"

#include "glog/logging.h"

#include <utility>

namespace hp {
namespace {

constexpr double kLeast = 0.0005;  // of the time: less would print as 0.0%

}  // namespace

void AddUse(const RoutingTable& table, Rank self, const NodeUse& use, IterationReport* report) {
  Payload over_links;
  for (const auto& [peer, moved] : use.payload) {
    if (table.node(peer).host != table.node(self).host) over_links += moved;
  }
  report->set_computing_ns(use.time.computing_ns);
  report->set_link_sent_bytes(over_links.sent);
  report->set_link_received_bytes(over_links.received);
}

NodeGauge::NodeGauge(std::string node, const Clock* clock, int64_t display, std::function<NodeUse()> use)
    : node_(std::move(node)), clock_(clock), display_(display), use_(std::move(use)), start_(Now()), last_(start_) {}

void NodeGauge::OnClockDone(int64_t clock) {
  ++clocks_;
  if (display_ == 0 || (clock + 1) % display_ != 0) return;
  Mark now = Now();
  Print(last_, now);
  last_ = std::move(now);
}

void NodeGauge::Finish() const { Print(start_, Now()); }

void NodeGauge::Print(const Mark& from, const Mark& to) const {
  const auto passed_ns = static_cast<double>(to.now_ns - from.now_ns);
  const auto part = [&](int64_t begin_ns, int64_t end_ns) {
    return passed_ns > 0 ? static_cast<double>(end_ns - begin_ns) / passed_ns : 0;
  };
  std::string waits;
  for (int i = 0; i < kWaits; ++i) {
    const Wait wait = static_cast<Wait>(i);
    const double waited = part(from.use.time.waiting(wait), to.use.time.waiting(wait));
    if (waited < kLeast) continue;
    waits += (waits.empty() ? ", waiting for " : ", ") + Format("%s %.1f%%", NameOf(wait), 100 * waited);
  }
  Payload before, after;
  for (const auto& [peer, moved] : from.use.payload) before += moved;
  for (const auto& [peer, moved] : to.use.payload) after += moved;
  LOG(INFO) << "node " << node_
            << Format(": %lld iterations in %.3f s: computing %.1f%%", static_cast<long long>(to.clocks - from.clocks),
                      passed_ns / 1e9, 100 * part(from.use.time.computing_ns, to.use.time.computing_ns))
            << waits << "; sent " << MegaBytes(after.sent - before.sent) << ", received "
            << MegaBytes(after.received - before.received);
}

}  // namespace hp
