#include "transport/verbs/settings.h"

namespace hp {
namespace {

Status CheckRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return InvalidArgument("%s is %lld; expected %lld to %lld", name, static_cast<long long>(value),
                         static_cast<long long>(low), static_cast<long long>(high));
}

}  // namespace

Status CheckVerbsSettings(const VerbsSettings& settings) {
  HP_RETURN_IF_ERROR(CheckRange("gid_index", settings.gid_index, -1, 255));
  HP_RETURN_IF_ERROR(CheckRange("roce_version_num", settings.roce_version, 0, 2));
  HP_RETURN_IF_ERROR(CheckRange("tc", settings.traffic_class, 0, 255));
  HP_RETURN_IF_ERROR(CheckRange("sl", settings.service_level, 0, 15));
  HP_RETURN_IF_ERROR(CheckRange("pkey", settings.pkey_index, 0, 65535));
  // 0 means that nothing is ever sent again, and that a dead peer is never noticed.
  HP_RETURN_IF_ERROR(CheckRange("timeout", settings.timeout, 1, 31));
  HP_RETURN_IF_ERROR(CheckRange("retry_cnt", settings.retry_count, 0, 7));
  HP_RETURN_IF_ERROR(CheckRange("rnr_retry", settings.rnr_retry, 0, 7));
  HP_RETURN_IF_ERROR(CheckRange("qps_per_connection", settings.qps_per_connection, 1, 16));
  for (const char* level : {"LOC", "PIX", "PXB", "PHB", "SYS"}) {
    if (settings.gpudirect_level == level) return OkStatus();
  }
  return InvalidArgument("net_gdr_level is \"%s\"; expected LOC, PIX, PXB, PHB or SYS",
                         settings.gpudirect_level.c_str());
}

}  // namespace hp
