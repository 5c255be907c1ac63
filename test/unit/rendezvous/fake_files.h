#pragma once

#include "rendezvous/file_seam.h"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace hp {

/// A folder that several hosts see over NFS, in memory. Each host has its own view (FakeFiles).
struct FakeServer {
  std::map<std::string, std::shared_ptr<std::string>> files;  // by path; links share their bytes
};

/// One host's view of it, which answers wrongly in the ways of NFS.
class FakeFiles : public FileSeam {
 public:
  explicit FakeFiles(FakeServer* server) : server_(server) {}

  bool lose_links = false;    ///< link() is carried out and reports an error
  bool lose_renames = false;  ///< likewise rename()
  bool fail_links = false;    ///< link() is not carried out
  bool cache_misses = false;  ///< a name that was missing stays missing until this host creates a file

  std::function<void(const std::string& path)> on_rename;  ///< may be null

  Status MakeFolder(const std::string&) override { return OkStatus(); }
  Status WriteFile(const std::string& path, std::string_view bytes) override {
    missing_.clear();
    server_->files[path] = std::make_shared<std::string>(bytes);
    return OkStatus();
  }
  Status Touch(const std::string& path) override { return WriteFile(path, ""); }
  Status Link(const std::string& from, const std::string& to) override {
    if (fail_links) return Unavailable("%s: no links here", to.c_str());
    if (server_->files.contains(to)) return Unavailable("%s: File exists", to.c_str());
    server_->files[to] = server_->files.at(from);
    return lose_links ? Unavailable("%s: File exists", to.c_str()) : OkStatus();
  }
  Status Rename(const std::string& from, const std::string& to) override {
    server_->files[to] = server_->files.at(from);
    server_->files.erase(from);
    if (on_rename) on_rename(to);
    return lose_renames ? Unavailable("%s: No such file or directory", from.c_str()) : OkStatus();
  }
  Status Remove(const std::string& path) override {
    server_->files.erase(path);
    return OkStatus();
  }
  StatusOr<int> CountLinks(const std::string& path) override {
    return static_cast<int>(server_->files.at(path).use_count());
  }
  StatusOr<std::optional<std::string>> ReadFile(const std::string& path) override {
    const auto it = server_->files.find(path);
    if (it == server_->files.end() && cache_misses) missing_.insert(path);
    if (it == server_->files.end() || missing_.contains(path)) return std::optional<std::string>();
    return std::optional(*it->second);
  }
  StatusOr<std::vector<std::string>> ListFolder(const std::string& path) override {
    std::vector<std::string> names;
    for (const auto& [file, bytes] : server_->files) {
      if (file.starts_with(path + "/")) names.push_back(file.substr(path.size() + 1));
    }
    return names;
  }

 private:
  FakeServer* const server_;
  std::set<std::string> missing_;
};

}  // namespace hp
