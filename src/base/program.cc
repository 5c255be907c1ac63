#include "base/program.h"

#include "base/hash.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

namespace hp {
namespace {

constexpr size_t Aligned(size_t bytes) { return (bytes + 3) / 4 * 4; }

/// The description of the first note that is a build id; empty: none.
std::string_view FindBuildId(const char* notes, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof(head));
    const size_t name = sizeof(head), text = name + Aligned(head.n_namesz), end = text + Aligned(head.n_descsz);
    if (end > size) return {};
    if (head.n_type == NT_GNU_BUILD_ID && std::string_view(notes + name, head.n_namesz) == std::string_view("GNU", 4))
      return {notes + text, head.n_descsz};
    notes += end;
    size -= end;
  }
  return {};
}

/// Called for the program itself first, which ends the walk.
int HashNotes(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const std::string_view id = FindBuildId(notes, segment.p_memsz);
    if (id.empty()) continue;
    *static_cast<uint64_t*>(result) = HashBytes(id);
    break;
  }
  return 1;
}

}  // namespace

uint64_t ProgramId() {
  uint64_t id = 0;
  dl_iterate_phdr(&HashNotes, &id);
  return id;
}

}  // namespace hp
