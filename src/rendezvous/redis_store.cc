// A reply that is lost leaves open whether its command was carried out. Each command here may be repeated: to set a
// table that is ours already, or to take a lease that we have, reports what the first one would have reported.
#include "rendezvous/redis_store.h"

#include "base/format.h"
#include "base/host.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

namespace hp {
namespace {

constexpr timeval kRedisTimeout = {3, 0};
constexpr char kKeepSeconds[] = "7776000";  // 90 days
constexpr char kLeaseMs[] = "10000";
// KEYS[1] the lease, ARGV[1] its holder, ARGV[2] its life in ms.
constexpr char kRenew[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

}  // namespace

void RedisStore::FreeContext::operator()(redisContext* context) const { redisFree(context); }
void RedisStore::FreeReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

RedisStore::RedisStore(std::string host, int port, std::string run, std::string password)
    : host_(std::move(host)), port_(port), run_(std::move(run)), password_(std::move(password)) {}

RedisStore::~RedisStore() = default;

std::string RedisStore::name() const { return "redis://" + HostPort(host_, port_) + "/" + run_; }

Status RedisStore::Connect() {
  context_.reset(redisConnectWithTimeout(host_.c_str(), port_, kRedisTimeout));
  if (!context_ || context_->err != 0) {
    const std::string cause = context_ ? context_->errstr : "out of memory";
    context_.reset();
    return Unavailable("%s: %s", name().c_str(), cause.c_str());
  }
  redisSetTimeout(context_.get(), kRedisTimeout);
  return password_.empty() ? OkStatus() : Command({"AUTH", password_}).status();
}

StatusOr<RedisStore::Reply> RedisStore::Command(const std::vector<std::string>& words) {
  if (!context_) HP_RETURN_IF_ERROR(Connect());
  std::vector<const char*> starts;
  std::vector<size_t> lengths;
  for (const std::string& word : words) {
    starts.push_back(word.data());
    lengths.push_back(word.size());
  }
  Reply reply(static_cast<redisReply*>(
      redisCommandArgv(context_.get(), static_cast<int>(words.size()), starts.data(), lengths.data())));
  if (!reply) {
    const std::string cause = context_->errstr;
    context_.reset();
    return Unavailable("%s: %s", name().c_str(), cause.c_str());
  }
  if (reply->type != REDIS_REPLY_ERROR) return reply;
  const std::string cause = Printable({reply->str, reply->len}, 200);
  // It still loads its data, or a replica has no master: that passes.
  if (cause.starts_with("LOADING") || cause.starts_with("MASTERDOWN")) {
    return Unavailable("%s: %s", name().c_str(), cause.c_str());
  }
  const char* advice = cause.starts_with("NOAUTH") ? " (its password: REDISCLI_AUTH in the environment)" : "";
  return InvalidArgument("%s: %s%s", name().c_str(), cause.c_str(), advice);
}

StatusOr<std::optional<std::string>> RedisStore::Get(const std::string& key) {
  HP_ASSIGN_OR_RETURN(const Reply reply, Command({"GET", key}));
  if (reply->type != REDIS_REPLY_STRING) return std::optional<std::string>();
  return std::optional(std::string(reply->str, reply->len));
}

StatusOr<bool> RedisStore::CreateTable(int incarnation, const std::string& entry) {
  const std::string key = KeyOf(Format("table:%d", incarnation));
  HP_RETURN_IF_ERROR(Command({"SET", key, entry, "NX", "EX", kKeepSeconds}).status());
  HP_ASSIGN_OR_RETURN(const std::optional<std::string> there, Get(key));
  return there == entry;
}

StatusOr<std::optional<std::string>> RedisStore::ReadTable(int incarnation) {
  return Get(KeyOf(Format("table:%d", incarnation)));
}

Status RedisStore::PutNode(const std::string& nonce, const std::string& entry) {
  HP_RETURN_IF_ERROR(Command({"HSET", KeyOf("nodes"), nonce, entry}).status());
  return Command({"EXPIRE", KeyOf("nodes"), kKeepSeconds}).status();
}

StatusOr<std::map<std::string, std::string>> RedisStore::ReadNodes() {
  HP_ASSIGN_OR_RETURN(const Reply reply, Command({"HGETALL", KeyOf("nodes")}));
  std::map<std::string, std::string> nodes;
  if (reply->type != REDIS_REPLY_ARRAY) return nodes;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    const redisReply* field = reply->element[i];
    const redisReply* value = reply->element[i + 1];
    if (field->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING) continue;
    nodes[std::string(field->str, field->len)] = std::string(value->str, value->len);
  }
  return nodes;
}

Status RedisStore::RemoveNode(const std::string& nonce) { return Command({"HDEL", KeyOf("nodes"), nonce}).status(); }

StatusOr<bool> RedisStore::HoldLease(int incarnation, const std::string& holder) {
  const std::string key = KeyOf(Format("lease:%d", incarnation));
  HP_ASSIGN_OR_RETURN(const Reply taken, Command({"SET", key, holder, "NX", "PX", kLeaseMs}));
  if (taken->type == REDIS_REPLY_STATUS) return true;
  HP_ASSIGN_OR_RETURN(const Reply renewed, Command({"EVAL", kRenew, "1", key, holder, kLeaseMs}));
  return renewed->type == REDIS_REPLY_INTEGER && renewed->integer == 1;
}

}  // namespace hp
