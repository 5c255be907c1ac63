#include "rendezvous/run_id.h"

#include "base/format.h"

#include <algorithm>
#include <cctype>

namespace hp {

Status CheckRunId(const std::string& id) {
  const bool fits = !id.empty() && id.size() <= 64 && id[0] != '.' && std::all_of(id.begin(), id.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
  if (fits) return OkStatus();
  return InvalidArgument("run id \"%s\": expected 1 to 64 letters, digits, \".\", \"_\" and \"-\", not \".\" first",
                         Printable(id, 100).c_str());
}

StatusOr<std::string> RunIdFor(const std::string& given, const std::function<std::string(const char*)>& environment) {
  std::string id = given;
  if (id.empty()) {
    id = environment("SLURM_JOB_ID");
    const std::string restarts = environment("SLURM_RESTART_COUNT");
    if (!id.empty() && !restarts.empty()) id += "." + restarts;
  }
  for (const char* variable : {"PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID"}) {
    if (id.empty()) id = environment(variable);
  }
  if (id.empty()) return id;
  // PMIx has "@" and the like in its names.
  if (given.empty()) {
    std::replace_if(
        id.begin(), id.end(), [](char c) { return c == '@' || c == ':' || c == '/'; }, '-');
  }
  HP_RETURN_IF_ERROR(CheckRunId(id));
  return id;
}

}  // namespace hp
