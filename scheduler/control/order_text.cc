#include "scheduler/control/order_text.h"

#include "base/format.h"

#include <string_view>
#include <vector>

namespace hp {
namespace {

/// The claim in quotes, which it cannot end by itself.
std::string QuotedClaim(const std::string& claim) {
  // Of UTF-8, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069: a terminal would turn what follows around.
  static const auto* const kTurning = new std::vector<std::string>{
      "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  std::string text = Printable(claim, kMaxGiverText);
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 4) text.replace(at, 1, "\\x22");
  for (const std::string& turning : *kTurning) {
    for (size_t at = 0; (at = text.find(turning, at)) != std::string::npos;) text.replace(at, turning.size(), "?");
  }
  return "\"" + text + "\"";
}

}  // namespace

std::string NameOfOrder(const JobOrder& order) {
  switch (order.kind()) {
    case JobOrder::SNAPSHOT:
      return "snapshot";
    case JobOrder::STOP:
      return "stop";
    case JobOrder::RATE:
      return Format("lr %g", static_cast<double>(order.base_lr()));
    case JobOrder::TRACE:
      return order.trace_on() ? "trace on" : "trace off";
    case JobOrder::NONE:
      break;
  }
  return "none";
}

std::string DescribeGiver(const OrderGiver& giver, const std::string& address) {
  std::string text = "from " + (address.empty() ? "an unknown address" : address);
  if (!giver.has_user() && !giver.has_host() && !giver.has_program() && !giver.has_process()) {
    return text + ", which does not say who it is";
  }
  text += ", which says it is " + QuotedClaim(giver.user()) + " on " + QuotedClaim(giver.host());
  text += ", program " + QuotedClaim(giver.program());
  return text + Format(", process %lld", static_cast<long long>(giver.process()));
}

}  // namespace hp
