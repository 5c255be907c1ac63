#include "rendezvous/entry.h"

#include "base/format.h"
#include "proto/parse.h"

#include <algorithm>
#include <cstring>

namespace hp {
namespace {

constexpr size_t kMostText = 4096;  // of a name, a role, a request
constexpr int kMostAddresses = 64, kMostCores = 1 << 16;
constexpr int64_t kMostMegabytes = int64_t{1} << 40, kMostIterations = int64_t{1} << 40;
constexpr int kMostIncarnations = 1 << 30;

std::string HexOf(const SecretKey& bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "0123456789abcdef"[std::to_integer<int>(bytes[i]) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(bytes[i]) & 15];
  }
  return text;
}

bool IsNonce(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool IsLine(const std::string& text) {
  return text.size() <= kMostText && std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= ' '; });
}

bool IsDevice(const std::string& device) {
  if (device == "cpu") return true;
  return device.size() > 5 && device.size() < 9 && device.starts_with("cuda:") &&
         device.find_first_not_of("0123456789", 5) == std::string::npos;
}

/// @return the first field out of its range; null: none.
const char* WrongField(const NodeRecord& record) {
  if (!IsNonce(record.nonce())) return "nonce";
  for (const std::string* text : {&record.run_id(), &record.host_name(), &record.request()}) {
    if (!IsLine(*text)) return "text";
  }
  if (record.address_size() < 1 || record.address_size() > kMostAddresses) return "address";
  if (!std::all_of(record.address().begin(), record.address().end(), &IsLine)) return "address";
  if (!record.listen().empty() && record.listen() != "0.0.0.0" && record.listen() != "::") return "listen";
  const auto is_length = [](int bits) { return bits >= 0 && bits <= 128; };
  if (record.prefix_length_size() != 0 && record.prefix_length_size() != record.address_size()) return "prefix_length";
  if (!std::all_of(record.prefix_length().begin(), record.prefix_length().end(), is_length)) return "prefix_length";
  if (record.port() < 1 || record.port() > 65535) return "port";
  const std::string& role = record.role();
  if (!role.empty() && role != "conv" && role != "fc" && role != "ps") return "role";
  if (!IsDevice(record.device())) return "device";
  if (record.cores() < 1 || record.cores() > kMostCores) return "cores";
  if (record.memory_mb() < 1 || record.memory_mb() > kMostMegabytes) return "memory_mb";
  if (record.incarnation() < 0 || record.incarnation() > kMostIncarnations) return "incarnation";
  if (record.iteration() < 0 || record.iteration() > kMostIterations) return "iteration";
  if (record.exit_status() < 0 || record.exit_status() > 255) return "exit_status";
  return nullptr;
}

const char* WrongField(const TableRecord& table) {
  if (table.incarnation() < 0 || table.incarnation() > kMostIncarnations) return "incarnation";
  if (!IsNonce(table.writer())) return "writer";
  if (!IsLine(table.run_id()) || !IsLine(table.request())) return "text";
  if (table.config().node_size() < 1 || table.config().node_size() > kMostRendezvousNodes) return "config";
  if (table.incarnation() == 0) return table.seat_size() == 0 && table.unneeded_size() == 0 ? nullptr : "seat";
  if (table.seat_size() != table.config().node_size() || table.unneeded_size() > kMostRendezvousNodes) return "seat";
  for (int i = 0; i < table.seat_size(); ++i) {
    if (!IsNonce(table.seat(i).nonce()) || table.seat(i).node() != table.config().node(i).name()) return "seat";
  }
  return std::all_of(table.unneeded().begin(), table.unneeded().end(), &IsNonce) ? nullptr : "unneeded";
}

const char* WrongField(const RendezvousAnswer& answer) {
  if (answer.text().size() > kMostText) return "text";
  if ((answer.kind() == RendezvousAnswer::TABLE) != answer.has_table()) return "table";
  return answer.has_table() ? WrongField(answer.table()) : nullptr;
}

template <typename Message>
StatusOr<Message> ParseChecked(std::string_view body, const char* what) {
  Message message;
  if (!ParseMessage(body, &message)) return DataLoss("it is no %s", what);
  if (const char* field = WrongField(message)) return DataLoss("its %s is out of range", field);
  return message;
}

}  // namespace

std::string NewNonce() { return HexOf(RandomBytes(), 16); }

EntrySeal::EntrySeal(std::string run, const std::optional<JobKeys>& keys) : run_(std::move(run)) {
  if (keys) key_ = keys->rendezvous;
}

SecretKey EntrySeal::CodeOf(const std::string& name, std::string_view body) const {
  std::string message = "hpnode rendezvous 1";
  for (const std::string& part : {run_, name}) message += Format("\n%zu ", part.size()) + part;
  message += "\n";
  message += body;
  return Authenticate(*key_, message);
}

std::string EntrySeal::Seal(const std::string& name, const std::string& body) const {
  SealedEntry entry;
  entry.set_body(body);
  if (key_) {
    const SecretKey code = CodeOf(name, body);
    entry.set_code(code.data(), code.size());
  }
  return entry.SerializeAsString();
}

StatusOr<std::string> EntrySeal::Open(const std::string& name, std::string_view bytes) const {
  SealedEntry entry;
  if (!ParseMessage(bytes, &entry)) return DataLoss("%s is no entry of hpnode", name.c_str());
  if (!key_) {
    if (entry.code().empty()) return std::move(*entry.mutable_body());
    return FailedPrecondition("%s is sealed by a token, and this process has none (--token_file)", name.c_str());
  }
  SecretKey code = {};
  if (entry.code().size() != code.size()) {
    return FailedPrecondition("%s has no seal, and this process has a token: do all have the same --token_file?",
                              name.c_str());
  }
  std::memcpy(code.data(), entry.code().data(), code.size());
  if (!SameBytes(code, CodeOf(name, entry.body()))) {
    return FailedPrecondition("%s is sealed by another token, or was another entry: do all have the same --token_file?",
                              name.c_str());
  }
  return std::move(*entry.mutable_body());
}

StatusOr<NodeRecord> ParseNodeRecord(std::string_view body) { return ParseChecked<NodeRecord>(body, "record"); }

StatusOr<TableRecord> ParseTableRecord(std::string_view body) { return ParseChecked<TableRecord>(body, "table"); }

StatusOr<RendezvousAnswer> ParseRendezvousAnswer(std::string_view body) {
  return ParseChecked<RendezvousAnswer>(body, "answer");
}

}  // namespace hp
