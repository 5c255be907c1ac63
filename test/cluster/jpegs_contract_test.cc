// jpeg_decoder: GPU, over fake GPUs that decode by libjpeg: what comes out has the bits of jpeg_decoder: HOST,
// whichever records go to the GPU.
#include "data/db_writer.h"
#include "data/image.h"
#include "test/cluster/contract_fixture.h"
#include "test/support/fake_device.h"
#include "test/support/log_lines.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>

namespace hp::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kRecords = 60, kCrop = 24;
// Of record r in turn: every second one is small enough to stay encoded.
enum Kind { kJpeg, kPng, kSecondJpeg, kPixels, kThirdJpeg, kLargeJpeg };
constexpr int kKinds = 6;

/// What a test wants of the fake library, and what it counts.
struct Decoding {
  std::atomic<int> batches{0}, jpegs{0}, launches{0};
  bool missing = false;
};

class CountingDecoder : public GpuJpegDecoder {
 public:
  CountingDecoder(std::unique_ptr<GpuJpegDecoder> decoder, Decoding* decoding)
      : decoder_(std::move(decoder)), decoding_(decoding) {}
  Status Decode(std::span<const GpuJpeg> jpegs, size_t* refused) override {
    ++decoding_->batches;
    decoding_->jpegs += static_cast<int>(jpegs.size());
    return decoder_->Decode(jpegs, refused);
  }

 private:
  const std::unique_ptr<GpuJpegDecoder> decoder_;
  Decoding* const decoding_;
};

class DecodingLibrary : public GpuLibrary {
 public:
  DecodingLibrary(Gpu* gpu, Decoding* decoding) : library_(MakeHostGpuLibrary(gpu)), decoding_(decoding) {}
  ElementType element() const override { return library_->element(); }
  int64_t channel_pack() const override { return library_->channel_pack(); }
  StatusOr<std::unique_ptr<GpuGemm>> Gemm(const GpuGemmDesc& desc) override { return library_->Gemm(desc); }
  StatusOr<std::unique_ptr<GpuConvolution>> Convolution(const ConvolutionDesc& desc, const Shape& in) override {
    return library_->Convolution(desc, in);
  }
  StatusOr<std::unique_ptr<GpuJpegDecoder>> JpegDecoder() override {
    if (decoding_->missing) return FailedPrecondition("nvJPEG is missing here");
    HP_ASSIGN_OR_RETURN(std::unique_ptr<GpuJpegDecoder> decoder, library_->JpegDecoder());
    return std::unique_ptr<GpuJpegDecoder>(std::make_unique<CountingDecoder>(std::move(decoder), decoding_));
  }

 private:
  const std::unique_ptr<GpuLibrary> library_;
  Decoding* const decoding_;
};

/// Waves, whose phase is the label's; for a large file noise.
Image WavesOf(int record, int height, int width, bool large) {
  Image image{height, width, 3, {}};
  uint32_t noise = 12345 + record;
  for (int i = 0; i < height * width * 3; ++i) {
    noise = noise * 1664525 + 1013904223;
    const double wave = 110 + 70 * std::sin(0.2 * (i / 3 % width) + record % 5 + i % 3) + (noise >> 24) % 3;
    image.pixels.push_back(large ? static_cast<unsigned char>(noise >> 24) : static_cast<unsigned char>(wave));
  }
  return image;
}

std::string RecordOf(int record, int height, int width) {
  const int kind = record % kKinds;
  caffe::Datum datum;
  const Image image = WavesOf(record, height, width, kind == kLargeJpeg);
  if (kind == kPixels) {
    ImageToDatum(image, &datum);
  } else {
    datum.set_encoded(true);
    datum.set_data(*EncodeImage(image, kind == kPng ? "png" : "jpg"));
  }
  datum.set_label(record % 5);
  return datum.SerializeAsString();
}

class JpegsContractTest : public ContractTest {
 protected:
  /// Writes records of all kinds. @param spread how much their sizes differ. @return the database's path.
  static std::string Database(int spread, const std::function<void(int record, caffe::Datum*)>& change = nullptr) {
    const std::string path = NewPrefix() + "_db";
    auto writer = DbWriter::Create(path, DbBackend::kLevelDb);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int r = 0; r < kRecords; ++r) {
      char key[16];
      snprintf(key, sizeof(key), "%08d", r);
      caffe::Datum datum;
      EXPECT_TRUE(datum.ParseFromString(RecordOf(r, 32 + (spread > 0 ? r % spread : 0), 36)));
      if (change) change(r, &datum);
      EXPECT_TRUE((*writer)->Put(key, datum.SerializeAsString()).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return path;
  }

  /// A net over a database, in both phases. @param transform fields of its transform_param.
  static std::string SolverOver(const std::string& database, const std::string& transform, int iterations = 12) {
    const auto data = [&](const std::string& phase, int batch, const std::string& more) {
      return "layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: " + phase +
             " } data_param { source: '" + database + "' batch_size: " + std::to_string(batch) +
             " } transform_param { scale: 0.0078125 crop_size: " + std::to_string(kCrop) + " " + more + transform +
             " } }\n";
    };
    return SolverOfNet(
        data("TRAIN", 13, "mirror: true ") + data("TEST", 7, "") +
            "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param { num_output: 4 "
            "kernel_size: 5 stride: 3 weight_filler { type: 'xavier' } } }\n"
            "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
            "layer { name: 'ip1' type: 'InnerProduct' bottom: 'conv1' top: 'ip1' inner_product_param { num_output: 20 "
            "weight_filler { type: 'xavier' } } }\n"
            "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip1' bottom: 'label' top: 'accuracy' include { phase: "
            "TEST } }\n"
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip1' bottom: 'label' top: 'loss' }\n",
        "test_initialization: true", 0.02, 0.002, iterations);
  }

  /// The table with its conv replicas on GPUs, and shards on processors.
  ClusterSpec OnGpus(ClusterSpec table, RoutingTableConfig::JpegDecoder decoder) {
    table.jpeg_decoder = decoder;
    table.device_copies = TransportConfig::OFF;
    table.device_of = [conv = table.conv](Rank rank) { return rank < conv ? "cuda:" + std::to_string(rank) : "cpu"; };
    table.open_device = [this, conv = table.conv](Rank rank) -> StatusOr<NodeDevice> {
      if (rank >= conv) return OpenNodeDevice("cpu", RoutingTableConfig::FP32);
      FakeGpu::Options options{.index = rank, .seed = seed_ + static_cast<uint32_t>(rank), .protect = true};
      options.on_close = [this](const FakeGpu& gpu) { decoding_.launches += gpu.launches(); };
      const auto make_library = [this](Gpu* gpu, GpuMath) -> StatusOr<std::unique_ptr<GpuLibrary>> {
        return std::unique_ptr<GpuLibrary>(std::make_unique<DecodingLibrary>(gpu, &decoding_));
      };
      return MakeGpuDevice(std::make_unique<FakeGpu>(options), make_library, RoutingTableConfig::FP32);
    };
    return table;
  }

  Decoding decoding_;
  uint32_t seed_ = 1;  // of the order among a GPU's queues
};

/// A mean image of all sizes alike, or means of channels for images of different sizes.
TEST_F(JpegsContractTest, HasTheBitsOfTheHostsDecoder) {
  const std::string mean = NewPrefix() + "_mean.binaryproto";
  caffe::BlobProto blob;
  for (const int dim : {3, 32, 36}) blob.mutable_shape()->add_dim(dim);
  for (int i = 0; i < 3 * 32 * 36; ++i) blob.add_data(90 + 0.01f * static_cast<float>(i));
  std::ofstream(mean, std::ios::binary) << blob.SerializeAsString();
  for (const std::string& solver : {SolverOver(Database(0), "mean_file: '" + mean + "'"),
                                    SolverOver(Database(9), "mean_value: 104 mean_value: 117 mean_value: 123")}) {
    for (const ClusterSpec& table :
         {Table(1, {}, 3, 0, false), Table(1, {}, 1, 1, false), Table(2, {1}, 2, 1, false)}) {
      SCOPED_TRACE(Describe(table));
      ClusterSpec placed = table;
      for (std::string& end : placed.ends) end = "relu1";
      for (std::string& start : placed.fc_starts) start = "ip1";
      LogLines of_host;
      const ClusterResult host = Train(OnGpus(placed, RoutingTableConfig::HOST), solver);
      const std::vector<std::string> tests = of_host.With("Test net output");
      EXPECT_EQ(tests.size(), 2u * 2) << "loss and accuracy, in front of the first iteration and of the tenth";
      EXPECT_EQ(decoding_.batches, 0);
      for (seed_ = 1; seed_ <= 3; ++seed_) {
        LogLines of_gpu;
        const ClusterResult gpu = Train(OnGpus(placed, RoutingTableConfig::GPU), solver);
        EXPECT_GT(decoding_.batches, 0);
        EXPECT_EQ(gpu.params, host.params) << "seed " << seed_;
        EXPECT_EQ(gpu.losses, host.losses) << "seed " << seed_;
        EXPECT_EQ(of_gpu.With("Test net output"), tests) << "seed " << seed_;
      }
      decoding_.batches = 0;
    }
  }
}

/// Which records go to the GPU follows from them alone; those of a micro-batch are one batch, and one launch puts their
/// crops in place.
TEST_F(JpegsContractTest, ABatchAndALaunchForEachMicroBatch) {
  constexpr int kIterations = 5, kMicroBatches = 2, kBatches = 2;  // of an iteration, and of the test in front of it
  const std::string solver = SolverOver(Database(0), "mean_value: 110", kIterations);
  const auto train = [&](RoutingTableConfig::JpegDecoder decoder) {
    decoding_.batches = decoding_.jpegs = decoding_.launches = 0;
    Train(OnGpus(Table(1, {}, kMicroBatches, 1, false), decoder), solver);
    return std::array<int, 3>{decoding_.batches, decoding_.jpegs, decoding_.launches};
  };
  const auto [host_batches, host_jpegs, host_launches] = train(RoutingTableConfig::HOST);
  EXPECT_EQ(host_batches, 0);
  const auto [batches, jpegs, launches] = train(RoutingTableConfig::GPU);
  EXPECT_EQ(batches, (kIterations + 1) * kBatches * kMicroBatches);
  EXPECT_EQ(jpegs, (kIterations * kBatches * 13 + kBatches * 7) / 2);
  EXPECT_EQ(launches - host_launches, 2 * batches) << "the fake's decoder and the copy of crops";
}

TEST_F(JpegsContractTest, ANodeWithoutTheLibraryEndsTheStart) {
  decoding_.missing = true;
  const std::string solver = SolverOver(Database(0), "mean_value: 110");
  const Status status = TrainCluster(OnGpus(Table(1, {}, 1, 1, false), RoutingTableConfig::GPU), solver).status;
  EXPECT_EQ(ExitStatus(status), 2) << status;
  EXPECT_THAT(status.message(), HasSubstr("node \"conv0\", jpeg_decoder: GPU: nvJPEG is missing here"));
  EXPECT_TRUE(TrainCluster(OnGpus(Table(1, {}, 1, 1, false), RoutingTableConfig::HOST), solver).status.ok());
}

/// Damage behind a good header is found by the device: the job ends, as it does where the host finds it.
TEST_F(JpegsContractTest, ADamagedJpegIsNamed) {
  const std::string database = Database(0, [](int record, caffe::Datum* datum) {
    if (record != 6) return;
    std::string* const bytes = datum->mutable_data();
    std::fill_n(bytes->begin() + static_cast<int64_t>(bytes->find("\xFF\xC4")) + 5, 16, '\xFF');
  });
  const std::string solver = SolverOver(database, "mean_value: 110");
  for (const auto decoder : {RoutingTableConfig::GPU, RoutingTableConfig::HOST}) {
    const Status status = TrainCluster(OnGpus(Table(1, {}, 2, 0, false), decoder), solver).status;
    EXPECT_EQ(ExitStatus(status), 2) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("record 6 (key \"00000006\") of "), HasSubstr("Bogus Huffman")));
    EXPECT_EQ(status.message().find("sample ") != std::string::npos, decoder == RoutingTableConfig::GPU) << status;
  }
}

TEST_F(JpegsContractTest, AReaderOnProcessorsIsRefused) {
  ClusterSpec table = OnGpus(Table(2, {}, 1, 1, false), RoutingTableConfig::GPU);
  table.device_of = [](Rank rank) { return rank == 0 ? "cuda:0" : "cpu"; };
  const Status status = TrainCluster(table, SolverOver(Database(0), "mean_value: 110")).status;
  EXPECT_EQ(ExitStatus(status), 2) << status;
  EXPECT_THAT(status.message(), HasSubstr("jpeg_decoder is GPU, but node \"conv1\" reads records and computes on "
                                          "processors; expected HOST"));
}

}  // namespace
}  // namespace hp::test
