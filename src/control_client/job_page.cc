#include "control_client/job_page.h"

#include "base/host.h"

#include "control_client/page_files.h"
#include "control_client/show_status.h"
#include "http/http_server.h"

#include <chrono>
#include <map>

namespace hp {
namespace {

constexpr std::chrono::seconds kBetween(1);  // two questions

// Nothing but the page's own files is loaded, nothing of it runs elsewhere, and no other page may show it in a frame.
const std::map<std::string, std::string>& Headers() {
  static const auto* const kHeaders = new std::map<std::string, std::string>{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  return *kHeaders;
}

}  // namespace

StatusOr<std::unique_ptr<JobPage>> JobPage::Open(const std::string& flag, const std::string& address,
                                                 JobReader reader) {
  std::string host;
  int port = 0;
  HP_RETURN_IF_ERROR(ParseHostPort(flag, address, &host, &port));
  if (!IsLoopbackHost(host)) {
    return InvalidArgument(
        "--%s=%s is reached from other hosts, and the page has no access control: expected 127.0.0.1:PORT (from "
        "another host: ssh -L PORT:127.0.0.1:PORT)",
        flag.c_str(), address.c_str());
  }
  auto page = std::unique_ptr<JobPage>(new JobPage(std::move(reader)));
  JobPage* const self = page.get();
  std::map<std::string, HttpPage> pages;
  for (const PageFile& file : PageFiles()) {
    pages[file.path] = [&file] { return HttpAnswer{file.type, file.text, Headers()}; };
  }
  pages["/job.json"] = [self] { return HttpAnswer{"application/json", self->Json(), Headers()}; };
  HP_ASSIGN_OR_RETURN(page->server_, HttpServer::Open(flag, address, std::move(pages)));
  page->thread_ = Thread("page", [self] { self->Follow(); });
  return page;
}

JobPage::JobPage(JobReader reader) : reader_(std::move(reader)) {
  history_.Add(Unavailable("no job has answered yet"));  // the first answer may take as long as connecting does
}

JobPage::~JobPage() {
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
  server_ = nullptr;
}

void JobPage::Follow() {
  while (true) {
    const StatusOr<JobStatus> status = reader_.Ask();
    MutexLock lock(&mutex_);
    history_.Add(status);
    if (!ended_) changed_.WaitFor(&mutex_, kBetween);
    if (ended_) return;
  }
}

std::string JobPage::Json() {
  MutexLock lock(&mutex_);
  return MessageJson(history_.data());
}

}  // namespace hp
