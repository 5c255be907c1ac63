#include "node/survey/survey_findings.h"

#include "base/format.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace hp {
namespace {

// From where on something deserves a look.
constexpr double kClockMs = 1000;     // lines of two logs no longer tell what came first
constexpr double kLatencyUs = 500;    // ten times that of an ordinary switched network
constexpr double kLopsided = 1.5;     // one way faster than the other
constexpr double kOfSpeed = 0.5;      // of what the interface is said to do
constexpr double kOfMedian = 0.5;     // of the hosts' median link
constexpr double kJumboGbitPerS = 9;  // from here on small frames cost much processor time
constexpr int kJumboMtu = 8000;
constexpr int64_t kLittleMb = 1024;  // memory or disk

double Gigabytes(int64_t mb) { return static_cast<double>(mb) * (1 << 20) * 1e-9; }

/// What one host can send, or receive, as its best connection shows it, and the mean latency of all.
struct Link {
  double sends = 0, receives = 0, latency_us = 0;
  int connections = 0;
  double gbit_per_s() const { return std::min(sends, receives); }
};

std::vector<Link> LinksOf(const SurveyReport& report) {
  std::vector<Link> links(report.host_size());
  for (const PairReport& pair : report.pair()) {
    const double there = pair.there_gbit_per_s(), back = pair.back_gbit_per_s();
    for (const auto& [host, sent, received] :
         {std::tuple(pair.first(), there, back), std::tuple(pair.second(), back, there)}) {
      Link& link = links.at(host);
      link.sends = std::max(link.sends, sent);
      link.receives = std::max(link.receives, received);
      link.latency_us += (pair.latency_us() - link.latency_us) / ++link.connections;
    }
  }
  return links;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Judge {
 public:
  explicit Judge(const SurveyReport& report) : report_(report), links_(LinksOf(report)) {}

  std::vector<Finding> Run() {
    for (int host = 0; host < report_.host_size(); ++host) LookAtHost(host);
    for (const PairReport& pair : report_.pair()) LookAtPair(pair);
    for (int host = 0; host < report_.host_size(); ++host) LookAtLink(host);
    return std::move(findings_);
  }

 private:
  void Good(const std::string& what, const std::string& advice = "") { findings_.push_back({true, what, advice}); }
  void Bad(const std::string& what, const std::string& advice) { findings_.push_back({false, what, advice}); }

  void LookAtHost(int index);
  void LookAtPair(const PairReport& pair);
  void LookAtMtu(const PairReport& pair, const std::string& label);
  void LookAtLink(int host);

  const SurveyReport& report_;
  const std::vector<Link> links_;
  std::vector<Finding> findings_;
};

void Judge::LookAtHost(int index) {
  const HostReport& host = report_.host(index);
  const std::string name = "host " + host.host();
  const std::string speed =
      host.speed_mbit_per_s() > 0 ? Format(" of %g Gbit/s", host.speed_mbit_per_s() * 1e-3) : std::string();
  Good(Format("%s (%s): %d cores, memory %.1f GB free of %.1f GB, disk %.1f GB free at %s, %s%s with MTU %d",
              name.c_str(), host.node().c_str(), host.cores(), Gigabytes(host.free_memory_mb()),
              Gigabytes(host.memory_mb()), Gigabytes(host.free_disk_mb()), host.folder().c_str(),
              host.interface().empty() ? "an unknown interface" : host.interface().c_str(), speed.c_str(), host.mtu()));
  if (host.free_memory_mb() < kLittleMb) {
    Bad(Format("%s: only %.1f GB of memory are free", name.c_str(), Gigabytes(host.free_memory_mb())),
        "end what else runs there, or give its nodes to another host; hproute --check says what each node needs");
  }
  if (host.free_disk_mb() < kLittleMb) {
    Bad(Format("%s: only %.1f GB are free at %s", name.c_str(), Gigabytes(host.free_disk_mb()), host.folder().c_str()),
        "snapshots need room for parameters and history: set snapshot_prefix to another disk, or make room");
  }
  if (host.lacks_bfloat16()) {
    Bad(Format("%s: precision: BF16 in the table, and processors without AVX512_BF16 or AMX", name.c_str()),
        "nodes with convolutions do not start there: give them to other hosts or to GPUs, or use precision: AUTO or "
        "FP32");
  }
  if (!host.lacks_jpeg_decoder().empty()) {
    Bad(Format("%s: jpeg_decoder: GPU in the table, and %s", name.c_str(), host.lacks_jpeg_decoder().c_str()),
        "nodes that read records do not start there");
  }
}

void Judge::LookAtPair(const PairReport& pair) {
  const std::string label = report_.host(pair.first()).host() + " - " + report_.host(pair.second()).host();
  const double there = pair.there_gbit_per_s(), back = pair.back_gbit_per_s();
  Good(Format("%s: latency %.0f us, %.3g Gbit/s there, %.3g back, MTU %d, clock %+.1f ms", label.c_str(),
              pair.latency_us(), there, back, pair.path_mtu(), pair.clock_ahead_ms()));
  if (std::abs(pair.clock_ahead_ms()) > kClockMs) {
    Bad(Format("%s: the second clock is %+.1f s apart", label.c_str(), pair.clock_ahead_ms() * 1e-3),
        "set both by NTP (chrony, systemd-timesyncd): training does not need it, but logs can't be compared");
  }
  if (pair.latency_us() > kLatencyUs) {
    Bad(Format("%s: a latency of %.0f us", label.c_str(), pair.latency_us()),
        "are both in one data centre, and idle? More micro-batches hide some of it (hproute --micro_batches)");
  }
  if (std::max(there, back) > kLopsided * std::min(there, back)) {
    Bad(Format("%s: %.3g Gbit/s one way, %.3g the other", label.c_str(), there, back),
        "look for lost packets and errors on both interfaces and the switch (ethtool -S, nstat TcpRetransSegs), and "
        "for what else sends");
  }
  LookAtMtu(pair, label);
}

void Judge::LookAtMtu(const PairReport& pair, const std::string& label) {
  const int first = report_.host(pair.first()).mtu(), second = report_.host(pair.second()).mtu();
  if (first != second) {
    Bad(Format("%s: MTU %d and %d", label.c_str(), first, second),
        "give both interfaces the same (ip link set dev INTERFACE mtu N): large packets may be dropped without a word");
  } else if (pair.path_mtu() > 0 && pair.path_mtu() < first) {
    Bad(Format("%s: MTU %d on the way, %d on both interfaces", label.c_str(), pair.path_mtu(), first),
        "a tunnel or a router between them takes less: set both interfaces to that");
  } else if (std::min(pair.there_gbit_per_s(), pair.back_gbit_per_s()) > kJumboGbitPerS && first > 0 &&
             first < kJumboMtu) {
    Good(Format("%s: small frames for such a fast link", label.c_str()),
         "where all switches allow it, `ip link set dev INTERFACE mtu 9000` takes less processor time per byte");
  }
}

void Judge::LookAtLink(int index) {
  if (links_[index].connections == 0) return;
  const HostReport& host = report_.host(index);
  const double own = links_[index].gbit_per_s(), speed = host.speed_mbit_per_s() * 1e-3;
  std::vector<double> all;
  for (const Link& link : links_) all.push_back(link.gbit_per_s());
  if (own < kOfMedian * Median(all)) {
    Bad(Format("host %s: its best connection has %.3g Gbit/s, half of the hosts have %.3g or more", host.host().c_str(),
               own, Median(all)),
        "all others wait for it: look at its cable, its switch port and what else uses its link, or leave it out");
  } else if (speed > 0 && own < kOfSpeed * speed) {
    Bad(Format("host %s: %.3g Gbit/s of %g of its interface", host.host().c_str(), own, speed),
        "is the switch slower, the link shared or shaped, the processor busy? --interface chooses another one");
  }
}

}  // namespace

std::vector<Finding> FindingsOf(const SurveyReport& report) { return Judge(report).Run(); }

HostsConfig HostsOfSurvey(const SurveyReport& report, const RoutingTable& table) {
  HostsConfig hosts;
  const std::vector<Link> links = LinksOf(report);
  for (int index = 0; index < report.host_size(); ++index) {
    HostConfig* const host = hosts.add_host();
    host->set_name(report.host(index).host());
    host->set_cores(report.host(index).cores());
    host->set_memory_mb(std::max<int64_t>(report.host(index).free_memory_mb(), 1));
    for (const NodeInfo& node : table.nodes()) {
      const auto& devices = host->device();
      const bool known = std::find(devices.begin(), devices.end(), node.device) != devices.end();
      if (node.host == host->name() && node.device != "cpu" && !known) host->add_device(node.device);
    }
    if (links[index].connections == 0) continue;
    // Three digits: more were not measured.
    host->set_link_gbit_per_s(std::stod(Format("%.3g", links[index].gbit_per_s())));
    host->set_latency_us(std::stod(Format("%.3g", links[index].latency_us)));
  }
  return hosts;
}

}  // namespace hp
