#include "data/reader.h"

#include "base/format.h"
#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "base/thread.h"
#include "proto/caffe.pb.h"
#include "tensor/buffer.h"

#include <glog/logging.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace hp {

// The pieces under way form three queues, all in the order of their numbers:
//   planned -> (read its records) -> read -> (get a slot, decode) -> decoded -> (deliver) -> used until released.
// Threads take rows of the oldest piece that can be decoded, or else of the oldest one whose records may be read: some
// each, so that all of them are at work where a batch is one piece. Whoever has finished a piece delivers what is due,
// unless another thread is at it: callbacks come one at a time and in order.
class BatchReader::Impl {
 public:
  Impl(std::vector<RecordSource> sources, SampleLayout layout, BatchReaderOptions options)
      : options_(std::move(options)), samples_(std::move(sources), std::move(layout), options_.max_bad_records) {
    CHECK_GE(options_.ring, 1);
    CHECK_GE(options_.threads, 1);
    CHECK_GE(options_.batches_ahead, 1);
    CHECK_GT(options_.max_rows, 0);
    allocated_ = Allocate(sizeof(float) * samples_.shape().Floats(options_.max_rows));
  }
  ~Impl() { Stop(); }

  const Status& allocated() const { return allocated_; }

  void Start(int64_t first_piece, int64_t end_piece) HP_EXCLUDES(mutex_);
  void Stop() HP_EXCLUDES(mutex_);
  const float* images(int64_t piece) HP_EXCLUDES(mutex_);
  bool raw(int64_t piece) HP_EXCLUDES(mutex_);
  std::string Describe(int64_t piece, int64_t row) HP_EXCLUDES(mutex_);
  void Release(int64_t piece) HP_EXCLUDES(mutex_);

 private:
  enum class State { kPlanned, kReading, kRead, kDecoding, kDecoded, kReady };
  struct Work {
    int64_t number = 0;
    Piece piece;
    State state = State::kPlanned;
    int64_t rows_taken = 0, rows_done = 0;  // in kReading and kDecoding
    int slot = -1;
    bool raw = false;  // decided while its records are read
    bool released = false;
    UndecodedSamples samples;  // of its rows
  };
  // What a thread does at one go: it reads or decodes these rows of a piece.
  struct Rows {
    Work* work = nullptr;  // null: there is nothing to do
    int64_t begin = 0, end = 0;
    bool bytes = true;  // each record that was read has bytes
  };
  // This node's part of one global batch.
  struct Part {
    int64_t batch = 0, first_row_in_batch = 0;
    int64_t first = 0, end = 0;  // pieces
    bool labels_delivered = false;
  };

  // What is to be told next.
  struct Event {
    Part* part = nullptr;                               // whose labels are there
    std::vector<const UndecodedSamples*> samples = {};  // of its pieces, in order
    int64_t ready = -1;
    Status error;
  };

  Status Allocate(size_t bytes);
  void ThreadBody();
  void Plan() HP_REQUIRES(mutex_);
  Rows NextToDecode() HP_REQUIRES(mutex_);
  Rows NextToRead() HP_REQUIRES(mutex_);
  Rows Take(Work* work) HP_REQUIRES(mutex_);
  bool HasRows(const Work& work, State state) const HP_REQUIRES(mutex_) {
    return work.state == state && work.rows_taken < work.piece.rows;
  }
  bool FinishRows(const Rows& rows) HP_EXCLUDES(mutex_);
  Work* Find(int64_t number) HP_REQUIRES(mutex_);
  const Work& FindReady(int64_t number) HP_REQUIRES(mutex_);
  Status ReadRecords(Rows* rows);
  Status Decode(const Rows& rows);
  void Deliver() HP_EXCLUDES(mutex_);
  bool DeliverNext() HP_EXCLUDES(mutex_);
  bool NextEvent(Event* event) HP_REQUIRES(mutex_);
  bool FindLabels(Part* part, Event* event) HP_REQUIRES(mutex_);
  void Fail(const Status& status) HP_EXCLUDES(mutex_);

  const BatchReaderOptions options_;
  SampleReader samples_;
  std::vector<Buffer> slots_;
  Status allocated_;  // the constructor's

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ HP_GUARDED_BY(mutex_) = false;
  bool failed_ HP_GUARDED_BY(mutex_) = false;
  Status error_ HP_GUARDED_BY(mutex_);  // not yet told
  bool delivering_ HP_GUARDED_BY(mutex_) = false;
  int64_t end_piece_ HP_GUARDED_BY(mutex_) = 0;
  Piece ahead_ HP_GUARDED_BY(mutex_);               // the first piece of the part after the planned ones
  int64_t next_planned_ HP_GUARDED_BY(mutex_) = 0;  // its number
  // Pointers to elements stay valid: elements are added behind and removed in front only.
  std::deque<Work> works_ HP_GUARDED_BY(mutex_);  // consecutive numbers, from the oldest that is not released
  std::deque<Part> parts_ HP_GUARDED_BY(mutex_);  // those with pieces in works_, and none else
  std::vector<int> free_slots_ HP_GUARDED_BY(mutex_);
  std::vector<Thread> threads_;  // Start and Stop only
};

Status BatchReader::Impl::Allocate(size_t bytes) {
  MutexLock lock(&mutex_);
  for (int i = 0; i < options_.ring; ++i) {
    HP_ASSIGN_OR_RETURN(Buffer slot, options_.allocate ? options_.allocate(bytes) : Buffer::Allocate(bytes));
    slots_.push_back(std::move(slot));
    free_slots_.push_back(i);
  }
  return OkStatus();
}

void BatchReader::Impl::Start(int64_t first_piece, int64_t end_piece) {
  Stop();
  CHECK_LE(first_piece, end_piece);
  CHECK(allocated_.ok()) << allocated_;
  {
    MutexLock lock(&mutex_);
    stopping_ = failed_ = false;
    error_ = OkStatus();
    next_planned_ = first_piece;
    end_piece_ = end_piece;
    if (first_piece < end_piece) ahead_ = options_.piece(first_piece);
    Plan();
  }
  for (int i = 0; i < options_.threads; ++i)
    threads_.emplace_back("read" + std::to_string(i), [this] { ThreadBody(); });
}

void BatchReader::Impl::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  threads_.clear();
  MutexLock lock(&mutex_);
  works_.clear();
  parts_.clear();
  free_slots_.clear();
  for (int i = 0; i < options_.ring; ++i) free_slots_.push_back(i);
}

void BatchReader::Impl::ThreadBody() {
  for (;;) {
    Rows rows;
    bool decode = false;
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (stopping_ || failed_) return;
        rows = NextToDecode();
        decode = rows.work != nullptr;
        if (!decode) rows = NextToRead();
        if (rows.work != nullptr) break;
        changed_.Wait(&mutex_);
      }
    }
    // Nobody else touches these rows of a piece in the states kReading and kDecoding, nor removes it.
    const Status status = OrOutOfMemory("reading records", [&] { return decode ? Decode(rows) : ReadRecords(&rows); });
    if (!status.ok()) return Fail(status);
    if (FinishRows(rows)) Deliver();
  }
}

// @return whether its piece is now read, or decoded.
bool BatchReader::Impl::FinishRows(const Rows& rows) {
  MutexLock lock(&mutex_);
  Work& work = *rows.work;
  work.rows_done += rows.end - rows.begin;
  if (!rows.bytes) work.raw = false;  // only while it is read: who decodes it looks at it without the lock
  if (work.rows_done < work.piece.rows) return false;
  work.rows_taken = work.rows_done = 0;
  work.state = work.state == State::kDecoding ? State::kDecoded : State::kRead;
  changed_.SignalAll();
  return true;
}

// Plans whole parts: as many as may be read. Called when a part has been used up.
void BatchReader::Impl::Plan() {
  while (next_planned_ < end_piece_ && static_cast<int>(parts_.size()) < 1 + options_.batches_ahead) {
    Part part{ahead_.batch, ahead_.first_row_in_batch, next_planned_, next_planned_};
    while (part.end < end_piece_ && ahead_.batch == part.batch) {
      CHECK_GT(ahead_.rows, 0);
      CHECK_LE(ahead_.rows, options_.max_rows);
      works_.emplace_back();
      works_.back().number = part.end++;
      works_.back().piece = ahead_;
      if (part.end < end_piece_) ahead_ = options_.piece(part.end);
    }
    next_planned_ = part.end;
    parts_.push_back(part);
  }
}

// Slots are given in the order of pieces, so that the oldest one always gets one.
BatchReader::Impl::Rows BatchReader::Impl::NextToDecode() {
  for (Work& work : works_) {
    if (HasRows(work, State::kDecoding)) return Take(&work);
    if (work.state > State::kRead) continue;
    if (work.state != State::kRead || free_slots_.empty()) return {};
    work.state = State::kDecoding;
    work.slot = free_slots_.back();
    free_slots_.pop_back();
    return Take(&work);
  }
  return {};
}

BatchReader::Impl::Rows BatchReader::Impl::NextToRead() {
  for (Work& work : works_) {
    if (HasRows(work, State::kReading)) return Take(&work);
    if (work.state != State::kPlanned) continue;
    work.state = State::kReading;
    work.raw = options_.raw;
    samples_.Resize(work.piece.rows, &work.samples);
    return Take(&work);
  }
  return {};
}

// Half of a thread's share, since some rows take longer than others, and not all threads begin at once.
BatchReader::Impl::Rows BatchReader::Impl::Take(Work* work) {
  const int64_t shares = options_.threads == 1 ? 1 : 2 * options_.threads;
  const int64_t begin = work->rows_taken;
  work->rows_taken = std::min(work->piece.rows, begin + (work->piece.rows + shares - 1) / shares);
  return {work, begin, work->rows_taken};
}

BatchReader::Impl::Work* BatchReader::Impl::Find(int64_t number) {
  CHECK(!works_.empty());
  const int64_t index = number - works_.front().number;
  CHECK(index >= 0 && index < static_cast<int64_t>(works_.size())) << "piece " << number << " is not in progress";
  return &works_[index];
}

Status BatchReader::Impl::ReadRecords(Rows* rows) {
  Work* const work = rows->work;
  for (int64_t row = rows->begin; row < rows->end; ++row) {
    HP_RETURN_IF_ERROR(samples_.Read(work->piece.first_sample + row, row, &work->samples));
    rows->bytes = rows->bytes && samples_.HasBytes(row, work->samples);
  }
  return OkStatus();
}

Status BatchReader::Impl::Decode(const Rows& rows) {
  Work* const work = rows.work;
  const Piece& piece = work->piece;
  Buffer& slot = slots_[work->slot];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t sample = piece.first_sample + row;
    if (work->raw) {
      HP_RETURN_IF_ERROR(samples_.DecodeRaw(sample, row, piece.rows, options_.encoded, &work->samples, slot.data()));
      continue;
    }
    if (options_.encoded) HP_RETURN_IF_ERROR(samples_.CheckNotEncoded(row, work->samples));
    HP_RETURN_IF_ERROR(samples_.Decode(sample, row, piece.rows, &work->samples, slot.floats()));
  }
  return OkStatus();
}

void BatchReader::Impl::Deliver() {
  {
    MutexLock lock(&mutex_);
    if (delivering_) return;  // that thread looks again before it leaves
    delivering_ = true;
  }
  while (DeliverNext()) {
  }
}

// @return false: nothing is due, and delivering_ is cleared in the same breath.
bool BatchReader::Impl::DeliverNext() {
  Event event;
  {
    MutexLock lock(&mutex_);
    if (!NextEvent(&event)) {
      delivering_ = false;
      return false;
    }
  }
  if (!event.error.ok()) {
    if (options_.on_error) options_.on_error(event.error);
  } else if (event.part == nullptr) {
    if (options_.on_ready) options_.on_ready(event.ready);
  } else {
    // Copied under no lock, since labels of pixels are as large as images. No piece of the part is ready before, so
    // each stays where it is.
    std::vector<float> labels;
    for (const UndecodedSamples* piece : event.samples) {
      labels.insert(labels.end(), piece->ahead.begin(), piece->ahead.end());
    }
    const auto record = [&](int64_t row) { return samples_.Describe(row, event.samples); };
    const Part& part = *event.part;
    if (options_.on_labels) options_.on_labels({part.batch, part.first_row_in_batch, labels, record});
    MutexLock lock(&mutex_);
    event.part->labels_delivered = true;
  }
  return true;
}

bool BatchReader::Impl::NextEvent(Event* event) {
  if (stopping_) return false;
  if (failed_) {
    event->error = std::exchange(error_, OkStatus());
    return !event->error.ok();
  }
  const auto part = std::find_if(parts_.begin(), parts_.end(), [](const Part& p) { return !p.labels_delivered; });
  if (part != parts_.end() && FindLabels(&*part, event)) return true;
  const int64_t limit = part == parts_.end() ? next_planned_ : part->first;
  const auto work = std::find_if(works_.begin(), works_.end(),
                                 [](const Work& candidate) { return candidate.state != State::kReady; });
  if (work == works_.end() || work->state != State::kDecoded || work->number >= limit) return false;
  work->state = State::kReady;
  event->ready = work->number;
  return true;
}

// @return false: some of the part's records are not read yet.
bool BatchReader::Impl::FindLabels(Part* part, Event* event) {
  for (int64_t n = part->first; n < part->end; ++n) {
    if (Find(n)->state < State::kRead) return false;
  }
  for (int64_t n = part->first; n < part->end; ++n) event->samples.push_back(&Find(n)->samples);
  event->part = part;
  return true;
}

void BatchReader::Impl::Fail(const Status& status) {
  {
    MutexLock lock(&mutex_);
    if (failed_) return;
    failed_ = true;
    error_ = status;
    changed_.SignalAll();
  }
  Deliver();
}

const BatchReader::Impl::Work& BatchReader::Impl::FindReady(int64_t number) {
  const Work* work = Find(number);
  CHECK(work->state == State::kReady && !work->released) << "piece " << number << " is not ready";
  return *work;
}

const float* BatchReader::Impl::images(int64_t piece) {
  MutexLock lock(&mutex_);
  return slots_[FindReady(piece).slot].floats();
}

bool BatchReader::Impl::raw(int64_t piece) {
  MutexLock lock(&mutex_);
  return FindReady(piece).raw;
}

std::string BatchReader::Impl::Describe(int64_t piece, int64_t row) {
  MutexLock lock(&mutex_);
  const UndecodedSamples* const samples = &FindReady(piece).samples;
  return samples_.Describe(row, {&samples, 1});
}

void BatchReader::Impl::Release(int64_t piece) {
  MutexLock lock(&mutex_);
  free_slots_.push_back(FindReady(piece).slot);
  Find(piece)->released = true;
  while (!works_.empty() && works_.front().released) works_.pop_front();
  const int64_t oldest = works_.empty() ? next_planned_ : works_.front().number;
  while (!parts_.empty() && parts_.front().end <= oldest) parts_.pop_front();
  Plan();
  changed_.SignalAll();
}

BatchReader::BatchReader(std::vector<RecordSource> sources, SampleLayout layout, BatchReaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(sources), std::move(layout), std::move(options))) {}
BatchReader::~BatchReader() = default;

Status BatchReader::allocated() const { return impl_->allocated(); }
void BatchReader::Start(int64_t first_piece, int64_t end_piece) { impl_->Start(first_piece, end_piece); }
void BatchReader::Stop() { impl_->Stop(); }
const float* BatchReader::images(int64_t piece) const { return impl_->images(piece); }
bool BatchReader::raw(int64_t piece) const { return impl_->raw(piece); }
std::string BatchReader::Describe(int64_t piece, int64_t row) const { return impl_->Describe(piece, row); }
void BatchReader::Release(int64_t piece) { impl_->Release(piece); }

}  // namespace hp
