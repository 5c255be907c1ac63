// Gloo reports errors by exceptions and has a time limit for every operation. Here each call catches what it throws,
// and the limit is set so far away that only a broken connection, or Close, ends a collective. The ring algorithm adds
// in an order that depends on ranks and length alone; with a plain sum of floats the result has the same bits in every
// run.
#include "solvers/exchange/gloo_ring.h"

#include "gloo/allreduce.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hp {
namespace {

// Gloo fails a collective that is late; we wait for slow replicas. Ten years are far from the overflow of a nanosecond
// count, which Gloo's "no timeout" (zero) is not tested against everywhere.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 3650);

// Carries the Status of a rendezvous through Gloo's frames.
class RendezvousError : public std::runtime_error {
 public:
  explicit RendezvousError(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

class RendezvousStore : public gloo::rendezvous::Store {
 public:
  RendezvousStore(Rendezvous* rendezvous, std::string prefix) : rendezvous_(rendezvous), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Status status = rendezvous_->Set(prefix_ + "/" + key, std::string(data.begin(), data.end()));
    if (!status.ok()) throw RendezvousError(std::move(status));
  }
  std::vector<char> get(const std::string& key) override {
    StatusOr<std::string> value = rendezvous_->Get(prefix_ + "/" + key);
    if (!value.ok()) throw RendezvousError(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  Rendezvous* const rendezvous_;
  const std::string prefix_;
};

void AddFloats(void* sum, const void* left, const void* right, size_t n) {
  float* out = static_cast<float*>(sum);
  const float* a = static_cast<const float*>(left);
  const float* b = static_cast<const float*>(right);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

StatusOr<std::shared_ptr<gloo::transport::Device>> OpenDevice(const std::string& address) {
  try {
    gloo::transport::tcp::attr attr;
    attr.hostname = address;
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception& error) {
    return InvalidArgument("exchange: cannot listen on %s: %s", address.c_str(), error.what());
  }
}

}  // namespace

StatusOr<std::unique_ptr<GlooRing>> GlooRing::Connect(const GlooOptions& options, Rendezvous* rendezvous) {
  HP_ASSIGN_OR_RETURN(auto device, OpenDevice(options.address));
  try {
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(kForever);
    RendezvousStore store(rendezvous, options.key_prefix);
    context->connectFullMesh(store, device);
    return std::unique_ptr<GlooRing>(new GlooRing(std::move(context)));
  } catch (const RendezvousError& error) {
    return error.status().Prepend("exchange: rendezvous");
  } catch (const std::exception& error) {
    return Unavailable("exchange: replica %d of %d cannot connect: %s", options.rank, options.size, error.what());
  }
}

Status GlooRing::AllReduce(std::span<float> values) {
  try {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(AddFloats);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTag(next_tag_++);
    options.setTimeout(kForever);
    gloo::allreduce(options);
    return OkStatus();
  } catch (const std::exception& error) {
    return Unavailable("exchange: allreduce of %zu values: %s", values.size(), error.what());
  }
}

// Gloo's closeConnections leaves a waiting collective waiting. A wait that runs out of time fails all connections of
// its context, and wakes who waits for them.
void GlooRing::Close() {
  try {
    char unused = 0;
    context_->createUnboundBuffer(&unused, 1)->waitRecv(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // What it is for.
  }
}

}  // namespace hp
