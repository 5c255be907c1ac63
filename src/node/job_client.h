#pragma once

#include "base/job_token.h"
#include "hp/status.h"
#include "proto/control.pb.h"
#include "scheduler/plan/routing_table.h"

#include <memory>
#include <optional>

namespace hp {

/// A client of a running job (hpctl): asks the first node of its table how it is, and gives orders, over TCP, whatever
/// transport the nodes use. One question at a time; one thread.
class JobClient {
 public:
  struct Options {
    int timeout_ms = 5'000;       ///< to connect, and for each answer
    std::optional<JobKeys> keys;  ///< of the job's token, or its read key; none: the job has no token
    bool control = false;         ///< whether it gives orders, which takes the token
  };
  /// Connects. @param table must outlive the client.
  /// @return kUnavailable, kDeadlineExceeded: there is no such job; kInvalidArgument, kFailedPrecondition: something
  /// else listens there, a job with another table, or it takes no orders from here.
  static StatusOr<std::unique_ptr<JobClient>> Connect(const RoutingTable& table, const Options& options);
  virtual ~JobClient() = default;

  /// @return kUnavailable: the job has ended, or is silent.
  virtual StatusOr<JobStatus> AskStatus() = 0;
  /// Gives an order, with who this process is (user, host, program, process id), for the job's log, and waits until all
  /// nodes know of it. @return in front of which iteration they carry it out;
  /// kFailedPrecondition: the job stops or ends before that, or does not train yet; kUnavailable as above.
  virtual StatusOr<int64_t> GiveOrder(const JobOrder& order) = 0;
};

}  // namespace hp
