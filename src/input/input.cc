// The reader knows pieces, numbered from 0 in the order of use, the pipeline knows ids. A clock has the same micro-
// batches each time, so piece = clock * count + index of the id among the replica's ids of a clock; a test begins
// again at piece 0. Pieces become ready in their order, so one atomic bound says which are.
#include "input/input.h"

#include "base/format.h"
#include "data/bad_records.h"
#include "data/record_source.h"
#include "input/dummy_dataset.h"
#include "layers/traits/fields.h"
#include "layers/traits/label_paths.h"
#include "layers/traits/own_phase.h"
#include "proto/hash.h"
#include "proto/net_filter.h"
#include "proto/place.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {

namespace {

/// By top of a DummyData layer, which numbers of a row are classes to some loss. What does not fit is named later.
std::map<int, std::vector<int64_t>> ClassesOf(const caffe::NetParameter& net, int layer, Phase phase,
                                              const LayerTypes& types) {
  std::map<int, std::vector<int64_t>> classes;
  if (net.layer(layer).type() != "DummyData") return classes;
  for (const LabelPath& path : LabelPathsOf(net, phase, types)) {
    if (!path.classes || path.source.first != layer) continue;
    const StatusOr<Shape> shape = DummyShape(net.layer(layer), path.source.second);
    if (!shape.ok()) continue;
    const Shape row(std::vector<int64_t>(shape->dims().begin() + 1, shape->dims().end()));
    const StatusOr<std::vector<int64_t>> elements = ElementsOf(path, net, row, types);
    std::vector<int64_t>& of_top = classes[path.source.second];
    if (elements.ok()) of_top.insert(of_top.end(), elements->begin(), elements->end());
  }
  return classes;
}

/// CheckReads before the place of its error is known.
Status CheckSourcesRead(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  HP_RETURN_IF_ERROR(CheckSources(net, phase, types));
  const std::vector<SourceTop> tops = SourceTopsOf(net, phase, types);
  const std::vector<int> layers = LayersOf(net, phase);
  for (const int i : layers) {
    const caffe::LayerParameter& layer = net.layer(i);
    // Also those of types that are not supported, or unknown, which say why.
    if (layer.bottom_size() == 0) HP_RETURN_IF_ERROR(LayerTraits::Create(layer, types).status());
    if (types.IsDataset(layer)) HP_RETURN_IF_ERROR(CheckTransformFields(layer));
  }
  if (std::any_of(layers.begin(), layers.end(), [&](int layer) { return types.IsDataset(net.layer(layer)); })) {
    return OkStatus();
  }
  if (!tops.empty()) {
    return InvalidArgument(
        "layer \"%s\": an Input layer, whose blobs a program fills, in phase %s; expected a layer that reads records "
        "(Data, ImageData, HDF5Data, DummyData)",
        net.layer(tops[0].layer).name().c_str(), phase.name().c_str());
  }
  return InvalidArgument(
      "net \"%s\" has no layer that reads records in phase %s; expected a Data, ImageData, "
      "HDF5Data or DummyData",
      net.name().c_str(), phase.name().c_str());
}

}  // namespace

Status Input::CheckReads(const caffe::NetParameter& net, Phase phase, const LayerTypes& types) {
  return AtLayer(CheckSourcesRead(net, phase, types), net, phase);
}

StatusOr<std::unique_ptr<Input>> Input::Open(const caffe::NetParameter& net, Phase phase, const LayerTypes& types,
                                             const InputOptions& options) {
  std::unique_ptr<Input> input(new Input);
  input->train_ = phase.train();
  input->max_bad_records_ = options.max_bad_records;
  HP_RETURN_IF_ERROR(CheckReads(net, phase, types));
  const std::vector<SourceTop> tops = SourceTopsOf(net, phase, types);
  for (const int layer : LayersOf(net, phase)) {
    if (!types.IsDataset(net.layer(layer))) continue;
    const Status opened = input->OpenSource(net.layer(layer), ClassesOf(net, layer, phase, types), options);
    HP_RETURN_IF_ERROR(AtLayer(opened, net, phase));
  }
  HP_RETURN_IF_ERROR(input->LayOut(tops));
  return input;
}

Status Input::OpenSource(const caffe::LayerParameter& layer, std::map<int, std::vector<int64_t>> classes,
                         const InputOptions& input_options) {
  Source source;
  source.layer = layer;
  DatasetOptions options;
  options.cache_dir = input_options.cache_dir;
  options.max_bad_records = input_options.max_bad_records;
  options.hint = "layer \"" + layer.name() + "\"";
  HP_ASSIGN_OR_RETURN(source.dataset, layer.type() == "DummyData"
                                          ? DummyDataset::Open(layer, std::move(classes), options)
                                          : OpenDatasetOf(layer, options));
  HP_ASSIGN_OR_RETURN(source.transformer, MakeTransformer(source, 0));
  HP_ASSIGN_OR_RETURN(const TransformOptions transform, TransformOptionsOf(layer));
  const uint64_t own = source.dataset->Fingerprint() ^ (transform.mean.fingerprint * 0x9E3779B97F4A7C15u);
  fingerprint_ = fingerprint_ * 0xC2B2AE3D27D4EB4Fu ^ own;
  sources_.push_back(std::move(source));
  return OkStatus();
}

// Sources are numbered in the order of their layers, as their tops are.
Status Input::LayOut(const std::vector<SourceTop>& tops) {
  int source = -1, layer = -1;
  for (const SourceTop& top : tops) {
    if (top.layer != layer) ++source;
    layer = top.layer;
    const SampleLayout::Top from{source, top.top};
    const Shape row = RowOf(from);
    if (top.goes_ahead && top.role != SourceTop::kLabels) layout_.also_ahead.push_back(from);
    if (top.role == SourceTop::kData) {
      layout_.data = from;
      layout_.shape.data = row;
    } else if (top.role == SourceTop::kLabels) {
      layout_.labels = from;
      layout_.shape.label = row;
    } else {
      layout_.others.push_back(from);
      layout_.shape.others.push_back(row);
    }
  }
  if (layout_.shape.InBounds()) return OkStatus();
  return InvalidArgument("samples of %s are too large", layout_.shape.ToString().c_str());
}

Shape Input::RowOf(SampleLayout::Top top) const {
  const Source& source = sources_[top.first];
  const Dataset& dataset = *source.dataset;
  return top.second == 0 ? dataset.first_shape(source.transformer->output_shape()) : dataset.top_shape(top.second);
}

int64_t Input::records() const {
  int64_t records = sources_[0].dataset->size();
  for (const Source& source : sources_) records = std::min(records, source.dataset->size());
  return records;
}

Input::~Input() { Stop(); }

// The first record decides the shape; where it is bad and may be, the first good one.
StatusOr<std::unique_ptr<Transformer>> Input::MakeTransformer(const Source& source, uint64_t seed) const {
  HP_RETURN_IF_ERROR(TransformOptionsOf(source.layer).status());  // a fault of theirs is none of a record
  StatusOr<std::unique_ptr<Transformer>> first = MakeTransformerFor(source, 0, seed);
  if (first.ok() || !MayBeSkipped(first.status())) return first;
  for (int64_t record = 1; record < std::min(source.dataset->size(), max_bad_records_ + 1); ++record) {
    StatusOr<std::unique_ptr<Transformer>> made = MakeTransformerFor(source, record, seed);
    if (made.ok()) return made;
  }
  return first;
}

StatusOr<std::unique_ptr<Transformer>> Input::MakeTransformerFor(const Source& source, int64_t record,
                                                                 uint64_t seed) const {
  caffe::Datum first;
  HP_RETURN_IF_ERROR(source.dataset->ReadDatum(record, &first));
  HP_ASSIGN_OR_RETURN(TransformOptions options, TransformOptionsOf(source.layer));
  auto made = Transformer::Create(std::move(options), OwnPhase(source.layer).value_or(train_), seed,
                                  source.layer.name(), first, source.dataset->Describe(record));
  return made.ok() ? std::move(made) : made.status().Prepend("layer \"" + source.layer.name() + "\"");
}

namespace {

/// Host memory that the device copies from directly; ordinary memory, which it copies from more slowly, where there is
/// no more of that.
StatusOr<Buffer> AllocateImages(Device* device, size_t bytes) {
  StatusOr<Buffer> buffer = device->AllocateHost(bytes);
  if (buffer.ok() || device->is_host()) return buffer;
  LOG(WARNING) << "no pinned host memory for images, using pageable memory: " << buffer.status();
  return Buffer::Allocate(bytes);
}

}  // namespace

Status Input::Prepare(const Schedule& schedule, int replica, Phase phase, uint64_t seed, const ReadAhead& ahead,
                      Device* device, Callbacks callbacks) {
  schedule_ = &schedule;
  replica_ = replica;
  phase_ = phase;
  callbacks_ = std::move(callbacks);
  if (train_) {
    ids_ = schedule.TrainIds(0, schedule.ReadBy(replica));
  } else {
    const int64_t first = schedule.shape().test_initialization ? 0 : schedule.shape().test_interval;
    for (const MsgId id : schedule.TestIds(first, schedule.ReadBy(replica))) {
      if (schedule.PhaseOf(id) == phase) ids_.push_back(MsgId::Make(0, false, id.micro(), id.replica()));
    }
  }
  std::vector<RecordSource> sources;
  for (Source& source : sources_) {
    HP_ASSIGN_OR_RETURN(source.transformer, MakeTransformer(source, seed));
    sources.push_back({source.dataset.get(), RecordOrderOf(source.layer, source.dataset->size(), seed, train_),
                       source.transformer.get()});
  }
  BatchReaderOptions options;
  for (MsgId id : ids_) options.max_rows = std::max(options.max_rows, schedule.SamplesOfId(id).rows);
  options.ring = ahead.ring;
  options.batches_ahead = ahead.batches;
  options.max_bad_records = max_bad_records_;
  options.threads = ahead.threads;
  options.raw = raw_ = ahead.raw && SampleReader::MayBeRaw(layout_);
  options.encoded = encoded_ = ahead.encoded && raw_ && whole_bytes() > 0;
  options.allocate = [device](size_t bytes) { return AllocateImages(device, bytes); };
  options.piece = [this](int64_t piece) {
    const int64_t count = static_cast<int64_t>(ids_.size());
    const MsgId first = ids_[piece % count];
    const int64_t clock = train_ ? piece / count : test_clock_.load();
    const MsgId id = MsgId::Make(clock, train_, first.micro(), first.replica());
    const IdSamples samples = schedule_->SamplesOfId(id);
    const int64_t before = train_ ? id.clock() * schedule_->shape().iter_size : 0;
    return Piece{before + samples.batch, samples.first_sample, samples.rows, samples.first_row};
  };
  options.on_labels = [this](BatchLabels labels) {
    const int64_t per_clock = schedule_->shape().iter_size;
    const int64_t clock = train_ ? labels.batch / per_clock : test_clock_.load();
    if (train_) labels.batch %= per_clock;
    callbacks_.on_labels(clock, phase_, labels);
  };
  options.on_ready = [this](int64_t piece) {
    ready_end_ = piece + 1;
    callbacks_.on_ready();
  };
  options.on_error = [this](const Status& status) { callbacks_.on_error(status); };
  if (ids_.empty()) return OkStatus();
  reader_ = std::make_unique<BatchReader>(std::move(sources), layout_, options);
  return reader_->allocated().Prepend("images of layer \"" + sources_[0].layer.name() + "\"");
}

void Input::Start(int64_t clock) {
  if (!reader_) return;
  const int64_t count = static_cast<int64_t>(ids_.size());
  const int64_t first = train_ ? clock * count : 0;
  const int64_t end = train_ ? schedule_->shape().max_iter * count : count;
  reader_->Stop();
  test_clock_ = clock;
  ready_end_ = first;
  if (first < end) reader_->Start(first, end);
}

void Input::Stop() {
  if (reader_) reader_->Stop();
}

int64_t Input::PieceOf(MsgId id) const {
  const MsgId in_first_clock = MsgId::Make(0, train_, id.micro(), id.replica());
  const int64_t index = std::lower_bound(ids_.begin(), ids_.end(), in_first_clock) - ids_.begin();
  return train_ ? id.clock() * static_cast<int64_t>(ids_.size()) + index : index;
}

bool Input::Ready(MsgId id) const { return PieceOf(id) < ready_end_; }

float* Input::images(MsgId id) const { return const_cast<float*>(reader_->images(PieceOf(id))); }

bool Input::raw(MsgId id) const { return reader_->raw(PieceOf(id)); }

std::optional<RawImageRule> Input::rule() const {
  if (!raw_) return std::nullopt;
  return sources_[layout_.data.first].transformer->rule();
}

int64_t Input::whole_bytes() const {
  return SampleReader::MayBeRaw(layout_) ? sources_[layout_.data.first].transformer->whole_bytes() : 0;
}

std::string Input::Describe(MsgId id, int64_t row) const {
  return Format("sample %lld (%s)", static_cast<long long>(schedule_->SamplesOfId(id).first_sample + row),
                reader_->Describe(PieceOf(id), row).c_str());
}

void Input::Release(MsgId id) { reader_->Release(PieceOf(id)); }

}  // namespace hp
