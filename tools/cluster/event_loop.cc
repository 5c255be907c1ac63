#include "tools/cluster/event_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <deque>
#include <utility>

namespace hp {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kPieceOfRead = 64 << 10;

// Each of these lives as long as an operation of it is pending: its handler holds it.
struct Reader : std::enable_shared_from_this<Reader> {
  explicit Reader(asio::io_context* context) : descriptor(*context) {}

  void Next() {
    descriptor.async_read_some(asio::buffer(buffer),
                               [self = shared_from_this()](const error_code& error, size_t bytes) {
                                 if (bytes > 0) self->on_bytes({self->buffer.data(), bytes});
                                 if (!error) return self->Next();
                                 error_code ignored;
                                 self->descriptor.close(ignored);
                                 self->on_end();
                               });
  }

  asio::posix::stream_descriptor descriptor;
  std::function<void(std::string_view)> on_bytes;
  std::function<void()> on_end;
  std::array<char, kPieceOfRead> buffer;
};

struct Queue : std::enable_shared_from_this<Queue> {
  explicit Queue(asio::io_context* context) : descriptor(*context) {}

  void Next() {
    if (queue.empty()) {
      error_code ignored;
      if (closing) descriptor.close(ignored);
      return;
    }
    writing = true;
    asio::async_write(descriptor, asio::buffer(queue.front()),
                      [self = shared_from_this()](const error_code& error, size_t) { self->OnWritten(error); });
  }

  void OnWritten(const error_code& error) {
    writing = false;
    if (error) {
      failed = true;
      queue.clear();
      waiting = 0;
      return;
    }
    waiting -= queue.front().size();
    queue.pop_front();
    Next();
  }

  asio::posix::stream_descriptor descriptor;
  std::deque<std::string> queue;
  size_t waiting = 0;
  bool writing = false, closing = false, failed = false;
};

class QueueSink : public Sink {
 public:
  explicit QueueSink(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
  ~QueueSink() override {
    error_code ignored;
    queue_->failed = true;
    queue_->descriptor.close(ignored);
  }

  void Send(std::string bytes) override {
    if (queue_->failed || queue_->closing || bytes.empty()) return;
    queue_->waiting += bytes.size();
    queue_->queue.push_back(std::move(bytes));
    if (!queue_->writing) queue_->Next();
  }
  void Close() override {
    queue_->closing = true;
    if (!queue_->writing) queue_->Next();
  }
  size_t waiting() const override { return queue_->waiting; }

 private:
  const std::shared_ptr<Queue> queue_;
};

}  // namespace

struct EventLoop::Impl {
  void AwaitSignal() {
    signals.async_wait([this](const error_code& error, int signal) {
      if (error) return;
      on_signal(signal);
      AwaitSignal();
    });
  }

  struct Timer {
    explicit Timer(asio::io_context* context) : timer(*context) {}
    void Next() {
      timer.expires_after(period);
      timer.async_wait([this](const error_code& error) {
        if (error) return;
        handler();
        Next();
      });
    }
    asio::steady_timer timer;
    std::chrono::milliseconds period{};
    std::function<void()> handler;
  };

  asio::io_context context{1};
  asio::signal_set signals{context};
  std::function<void(int)> on_signal;
  std::deque<Timer> timers;
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::Read(int fd, std::function<void(std::string_view)> on_bytes, std::function<void()> on_end) {
  const auto reader = std::make_shared<Reader>(&impl_->context);
  reader->on_bytes = std::move(on_bytes);
  reader->on_end = std::move(on_end);
  error_code error;
  reader->descriptor.assign(fd, error);
  reader->Next();  // of a descriptor that can't be waited for: its end
}

std::unique_ptr<Sink> EventLoop::Write(int fd) {
  auto queue = std::make_shared<Queue>(&impl_->context);
  error_code error;
  queue->descriptor.assign(fd, error);
  return std::make_unique<QueueSink>(std::move(queue));
}

void EventLoop::OnSignals(const std::vector<int>& signals, std::function<void(int)> handler) {
  error_code ignored;
  for (const int signal : signals) impl_->signals.add(signal, ignored);
  impl_->on_signal = std::move(handler);
  impl_->AwaitSignal();
}

void EventLoop::Every(std::chrono::milliseconds period, std::function<void()> handler) {
  Impl::Timer& timer = impl_->timers.emplace_back(&impl_->context);
  timer.period = period;
  timer.handler = std::move(handler);
  timer.Next();
}

void EventLoop::RunOnce() {
  impl_->context.restart();
  impl_->context.run_one();
}

}  // namespace hp
