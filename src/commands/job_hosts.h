#pragma once

#include "base/job_environment.h"
#include "hp/status.h"

#include <string>
#include <vector>

namespace hp {

/// Whether hproute's --hosts says where the hosts are to be found, instead of naming them: "slurm", "ranks",
/// "hostfile:FILE" or "kubernetes:JOB.SERVICE", each also with "/DEVICE" behind it.
bool AreJobHosts(const std::string& hosts);

/// The entries for TableRequest::hosts, one for each node, in the order of the scheduler's tasks: so task i, which
/// takes entry i of the table, is on the host that the entry names.
///   slurm                  the allocation's, by SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE; within srun its step's.
///                          Tasks fill one host after the other, as srun --distribution=block places them.
///   hostfile:FILE          of mpirun --hostfile, or PBS_NODEFILE: a line is HOST, HOST:N or HOST slots=N; # comments.
///   kubernetes:JOB.SERVICE the pods of an indexed Job behind a headless service: JOB-0.SERVICE, JOB-1.SERVICE, ...
///   ranks                  MASTER_ADDR, where LOCAL_WORLD_SIZE says that all of WORLD_SIZE are on its host; else the
///                          hosts of the others are not known.
/// @param nodes of the table. @param hosts AreJobHosts.
/// @return kInvalidArgument: there are more or fewer tasks than nodes (the message has both), or a variable or line is
/// missing or malformed; kNotFound: no such file.
StatusOr<std::vector<std::string>> JobHosts(const std::string& hosts, int nodes,
                                            const EnvironmentReader& read = Environment);

/// The hosts for a plan, which chooses itself how many nodes it places on which: each once, in the order of the tasks.
/// @param hosts AreJobHosts.
/// @return the errors of JobHosts but for numbers; kInvalidArgument: "kubernetes:...", whose pods are made for a table,
/// or ".../cuda", which does not say how many GPUs a host has.
StatusOr<std::vector<std::string>> JobHostsToPlan(const std::string& hosts,
                                                  const EnvironmentReader& read = Environment);

/// How the nodes of a planned table lie on such hosts, for who starts a task for each.
struct TaskPlacement {
  std::vector<std::string> hosts;  ///< with nodes, in the order of the table
  int nodes_per_host = 0;
};

/// @param node_hosts the host of each node of the table. @param hosts as JobHostsToPlan has them, without devices.
/// @return kInvalidArgument: tasks that fill one host after the other, as many on each, would not be on the hosts of
/// their entries.
StatusOr<TaskPlacement> PlaceTasks(const std::vector<std::string>& node_hosts, const std::vector<std::string>& hosts);

/// The port that the environment has for the nodes of such hosts: MASTER_PORT with "ranks".
/// @param otherwise without one. @return kInvalidArgument: it is no port.
StatusOr<int> JobPort(const std::string& hosts, int otherwise, const EnvironmentReader& read = Environment);

}  // namespace hp
