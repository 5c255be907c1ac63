#pragma once

#include "base/mutex.h"
#include "base/thread.h"
#include "hp/status.h"

#include "control_client/job_reader.h"
#include "control_client/page_history.h"

#include <memory>
#include <string>

namespace hp {

class HttpServer;

/// A page that shows a job live, to browsers of this host: `hpctl page` and `hpserver --http`. It asks the job once a
/// second, whether anybody looks or not, so that curves have their beginning; it gives no orders. It has no access
/// control, and so is shown on loopback addresses alone: from elsewhere it is reached by `ssh -L`.
class JobPage {
 public:
  /// @param flag names `address` in messages. @param address of this host, as "127.0.0.1:8080".
  /// @param reader asked on a thread of the page's.
  /// @return kInvalidArgument: not a loopback address; HttpServer::Open's errors.
  static StatusOr<std::unique_ptr<JobPage>> Open(const std::string& flag, const std::string& address, JobReader reader);
  /// Ends its threads; waits for the job's answer if one is due.
  ~JobPage();

 private:
  explicit JobPage(JobReader reader);
  void Follow() HP_EXCLUDES(mutex_);
  std::string Json() HP_EXCLUDES(mutex_);

  JobReader reader_;  // of the thread
  Mutex mutex_;
  CondVar changed_;
  bool ended_ HP_GUARDED_BY(mutex_) = false;
  PageHistory history_ HP_GUARDED_BY(mutex_);
  std::unique_ptr<HttpServer> server_;
  Thread thread_;
};

}  // namespace hp
