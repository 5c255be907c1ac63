#include "control_client/job_reader.h"

namespace hp {

Status JobReader::Connect() {
  HP_ASSIGN_OR_RETURN(RoutingTable table, find_table_());
  if (client_ && table_->hash() == table.hash()) return OkStatus();
  client_ = nullptr;
  table_ = std::move(table);
  HP_ASSIGN_OR_RETURN(client_, JobClient::Connect(*table_, options_));
  return OkStatus();
}

StatusOr<JobStatus> JobReader::Ask() {
  HP_RETURN_IF_ERROR(Connect());
  StatusOr<JobStatus> status = client_->AskStatus();
  if (!status.ok()) client_ = nullptr;
  return status;
}

}  // namespace hp
