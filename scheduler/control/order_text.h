#pragma once

#include "proto/control.pb.h"

#include <string>

namespace hp {

/// Bytes of each text by which the giver of an order describes itself; what is beyond is not logged.
constexpr size_t kMaxGiverText = 64;

/// What is ordered, as hpctl's command line has it: "stop", "lr 0.005", "trace on".
std::string NameOfOrder(const JobOrder& order);

/// Who gave an order, for logs and terminals: 'from 10.0.0.7:40312, which says it is "anna" on "desk", program "hpctl",
/// process 4711'. Control characters, bytes that are no UTF-8, quotes, and characters that change the direction of text
/// are escaped, so nothing that is claimed looks like what is known.
/// @param giver as it came; any bytes. @param address by the connection itself; empty: unknown.
std::string DescribeGiver(const OrderGiver& giver, const std::string& address);

}  // namespace hp
