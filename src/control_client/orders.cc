#include "control_client/orders.h"

#include "base/format.h"

#include <charconv>
#include <cmath>

namespace hp {
namespace {

StatusOr<float> ParseRate(const std::string& text) {
  float rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(rate) && rate > 0) return rate;
  return InvalidArgument("lr is \"%s\"; expected a base_lr above 0, as in the solver file", text.c_str());
}

Status CheckWords(const std::vector<std::string>& words, size_t expected, const char* usage) {
  if (words.size() == expected) return OkStatus();
  return InvalidArgument("expected: %s", usage);
}

}  // namespace

StatusOr<JobOrder> ParseOrder(const std::vector<std::string>& words) {
  JobOrder order;
  const std::string& command = words.at(0);
  if (command == "snapshot" || command == "stop") {
    HP_RETURN_IF_ERROR(CheckWords(words, 1, command.c_str()));
    order.set_kind(command == "stop" ? JobOrder::STOP : JobOrder::SNAPSHOT);
  } else if (command == "lr") {
    HP_RETURN_IF_ERROR(CheckWords(words, 2, "lr BASE_LR"));
    HP_ASSIGN_OR_RETURN(const float rate, ParseRate(words[1]));
    order.set_kind(JobOrder::RATE);
    order.set_base_lr(rate);
  } else if (command == "trace") {
    HP_RETURN_IF_ERROR(CheckWords(words, 2, "trace on|off"));
    if (words[1] != "on" && words[1] != "off") return InvalidArgument("expected: trace on|off");
    order.set_kind(JobOrder::TRACE);
    order.set_trace_on(words[1] == "on");
  } else {
    return InvalidArgument("\"%s\" is no command; expected status, watch, snapshot, stop, lr BASE_LR or trace on|off",
                           Printable(command, 64).c_str());
  }
  return order;
}

std::string DescribeOrder(const JobOrder& order, int64_t iteration) {
  const auto at = static_cast<long long>(iteration);
  switch (order.kind()) {
    case JobOrder::SNAPSHOT:
      return Format("a snapshot of iteration %lld is being written", at);
    case JobOrder::STOP:
      return at > 0 ? Format("the job stops at iteration %lld", at) : "the job stops before it trains";
    case JobOrder::RATE:
      return Format("from iteration %lld on base_lr is %g", at, static_cast<double>(order.base_lr()));
    case JobOrder::TRACE:
      return Format("tracing is %s from iteration %lld on", order.trace_on() ? "on" : "off", at);
    case JobOrder::NONE:
      break;
  }
  return "";
}

}  // namespace hp
