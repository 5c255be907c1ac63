#include "scheduler/simulator/simulation_report.h"

#include "base/format.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace hp {
namespace {

/// Lines that are alike but for their name.
class Lines {
 public:
  void Add(const std::string& name, const std::string& text) {
    const auto [line, is_new] = names_.try_emplace(text);
    if (is_new) order_.push_back(text);
    line->second.push_back(name);
  }
  std::string Text() const {
    std::string text;
    for (const std::string& line : order_) {
      const std::vector<std::string>& names = names_.at(line);
      text += "  " + names.front();
      if (names.size() > 1) text += Format(" and %zu like it, to %s", names.size() - 1, names.back().c_str());
      text += ": " + line + "\n";
    }
    return text;
  }

 private:
  std::map<std::string, std::vector<std::string>> names_;
  std::vector<std::string> order_;
};

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string NodeText(const NodeUse& use, int pool) {
  const int64_t ns = use.ns;
  std::string text = Format("computes %.0f%%", Share(use.busy_ns(), ns));
  text += Format(" (forward %.0f, backward %.0f", Share(use.forward_ns, ns), Share(use.backward_ns, ns));
  if (use.weights_ns > 0) text += Format(", weight gradients %.0f", Share(use.weights_ns, ns));
  text += Format(", updates %.0f)", Share(use.update_ns, ns));
  const char* separator = ", waits for ";
  for (size_t cause = 0; cause < kWaitCauses; ++cause) {
    const double share = Share(use.wait_ns[cause], ns);
    if (share < 0.5) continue;
    text += Format("%s%s %.0f%%", separator, kWaitCauseNames[cause], share);
    separator = ", ";
  }
  return text + Format("; %.1f of %d solvers bound, %d at most",
                       ns > 0 ? static_cast<double>(use.solver_ns) / static_cast<double>(ns) : 0, pool,
                       use.most_solvers);
}

/// Of what a link of `bytes_per_s` could have carried, in per cent.
double Busy(int64_t bytes, double bytes_per_s, int64_t ns) {
  return ns > 0 ? 100 * static_cast<double>(bytes) / (bytes_per_s * static_cast<double>(ns) / 1e9) : 0;
}

}  // namespace

std::string BottleneckOf(const SimulatedJob& job, const SimulationResult& result) {
  double most = 0;
  std::string text = "nothing";
  const auto consider = [&](double busy, const char* what, const std::string& name) {
    if (busy <= most * 1.001) return;
    most = busy;
    text = Format("%s \"%s\", busy %.0f%% of the time", what, name.c_str(), busy);
  };
  for (size_t rank = 0; rank < job.nodes.size(); ++rank) {
    consider(Share(result.nodes[rank].busy_ns(), result.nodes[rank].ns), "the executor of", job.nodes[rank].name);
  }
  for (size_t host = 0; host < job.hosts.size(); ++host) {
    const SimulatedHost& info = job.hosts[host];
    consider(Busy(result.links[host].out_bytes, info.bytes_per_s, result.ns), "the link out of host", info.name);
    consider(Busy(result.links[host].in_bytes, info.bytes_per_s, result.ns), "the link into host", info.name);
  }
  return text;
}

std::string DescribeSimulation(const SimulatedJob& job, const SimulationResult& result) {
  std::string text = Format("%.1f images/s, %.2f ms an iteration of %lld images\n", result.samples_per_s(),
                            result.ms_per_iteration(), static_cast<long long>(result.samples));
  text += "bottleneck: " + BottleneckOf(job, result) + "\n";
  Lines nodes, hosts;
  for (size_t rank = 0; rank < job.nodes.size(); ++rank) {
    nodes.Add(job.nodes[rank].name, NodeText(result.nodes[rank], job.nodes[rank].plan.pool_size));
  }
  for (size_t host = 0; host < job.hosts.size(); ++host) {
    const SimulatedHost& info = job.hosts[host];
    const SimulationResult::LinkUse& use = result.links[host];
    const double clocks = static_cast<double>(result.clocks);
    hosts.Add(
        info.name,
        Format("sends %.1f MB an iteration (link busy %.0f%%), receives %.1f MB (%.0f%%), %.1f MB "
               "queued at most",
               static_cast<double>(use.out_bytes) / clocks / 1e6, Busy(use.out_bytes, info.bytes_per_s, result.ns),
               static_cast<double>(use.in_bytes) / clocks / 1e6, Busy(use.in_bytes, info.bytes_per_s, result.ns),
               static_cast<double>(use.most_queued_bytes) / 1e6));
  }
  text += "nodes:\n" + nodes.Text();
  if (job.hosts.size() > 1) text += "hosts:\n" + hosts.Text();
  return text;
}

}  // namespace hp
