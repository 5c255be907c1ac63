// The numbers are counted where they arise; a question of Prometheus has them collected, so that nothing is counted
// twice, and nothing is done while nobody asks.
#include "report/metrics.h"

#include "scheduler/pipeline/time_use.h"

#include "http/http_server.h"
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

namespace hp {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

/// Metrics of one node, in the order of Add.
class Families {
 public:
  void AddCounter(const char* name, const char* help, double value, Labels labels = {}) {
    Next(name, help, MetricType::Counter, std::move(labels))->counter.value = value;
  }
  void AddGauge(const char* name, const char* help, double value, Labels labels = {}) {
    Next(name, help, MetricType::Gauge, std::move(labels))->gauge.value = value;
  }
  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  /// A further metric of the last family, if it has that name.
  ClientMetric* Next(const char* name, const char* help, MetricType type, Labels labels) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, help, type, {}});
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return &metric;
  }

  std::vector<MetricFamily> families_;
};

void AddLearning(const LearningStatus& learning, Families* to) {
  if (learning.has_loss()) {
    to->AddGauge("hpnode_loss", "Training loss, smoothed as in the log.", learning.loss());
    to->AddGauge("hpnode_learning_rate", "Learning rate, without lr_mult.", learning.rate());
  }
  for (const TestOutput& output : learning.test_output()) {
    to->AddGauge("hpnode_test_output", "Outputs of the latest test.", output.value(), {{"blob", output.blob()}});
  }
}

void AddTraining(const NodeMetrics& node, Families* to) {
  constexpr double kSecond = 1e9;
  const NodeStatus& status = node.status;
  to->AddCounter("hpnode_iterations_total", "Iterations done, counted from the job's first.",
                 static_cast<double>(node.iterations));
  to->AddCounter("hpnode_images_total", "Images of training that the node computed.", static_cast<double>(node.images));
  to->AddCounter("hpnode_computing_seconds_total", "Time in which the node computed.",
                 static_cast<double>(status.computing_ns()) / kSecond);
  for (int wait = 0; wait < status.waiting_ns_size() && wait < kWaits; ++wait) {
    to->AddCounter("hpnode_waiting_seconds_total", "Time in which the node had nothing to compute, by what it lacked.",
                   static_cast<double>(status.waiting_ns(wait)) / kSecond,
                   {{"cause", NameOf(static_cast<Wait>(wait))}});
  }
  to->AddCounter("hpnode_sent_bytes_total", "Bytes of tensors sent to other nodes.",
                 static_cast<double>(status.sent_bytes()));
  to->AddCounter("hpnode_received_bytes_total", "Bytes of tensors received from other nodes.",
                 static_cast<double>(status.received_bytes()));
  to->AddGauge("hpnode_solvers", "Solvers of the pool.", status.solvers_free(), {{"state", "free"}});
  to->AddGauge("hpnode_solvers", "Solvers of the pool.", status.solvers_bound(), {{"state", "bound"}});
  to->AddGauge("hpnode_ready_tasks", "Tasks that wait for the executor.", status.tasks_ready());
  to->AddGauge("hpnode_waiting_tensors", "Tensors that are computed and not with their readers.",
               status.tensors_waiting());
  AddLearning(status.learning(), to);
}

std::vector<MetricFamily> MakeFamilies(const NodeMetrics& node) {
  Families families;
  families.AddGauge("hpnode_info", "The node and its job.", 1,
                    {{"job", node.job},
                     {"node", node.node},
                     {"role", node.role},
                     {"host", node.host},
                     {"precision", node.precision}});
  families.AddGauge("hpnode_training", "1 once the node trains.", node.training ? 1 : 0);
  families.AddGauge("hpnode_resident_memory_bytes", "Memory of the process.",
                    static_cast<double>(node.status.memory_bytes()));
  if (node.training) AddTraining(node, &families);
  return families.Take();
}

class PrometheusEndpoint : public MetricsEndpoint {
 public:
  explicit PrometheusEndpoint(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}

 private:
  const std::unique_ptr<HttpServer> server_;
};

}  // namespace

StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Open(const std::string& address,
                                                                 std::function<NodeMetrics()> collect) {
  const auto page = [collect = std::move(collect)] {
    return HttpAnswer{"text/plain; version=0.0.4; charset=utf-8",
                      prometheus::TextSerializer().Serialize(MakeFamilies(collect())),
                      {}};
  };
  HP_ASSIGN_OR_RETURN(std::unique_ptr<HttpServer> server, HttpServer::Open("metrics", address, {{"/metrics", page}}));
  return std::unique_ptr<MetricsEndpoint>(new PrometheusEndpoint(std::move(server)));
}

}  // namespace hp
