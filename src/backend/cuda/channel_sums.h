#pragma once

#include "backend/broadcast_rules.h"
#include "backend/cuda/channels.h"
#include "backend/cuda/element.h"
#include "backend/cuda/launch.h"

#include <algorithm>
#include <cstdint>

// Sums over each channel's elements, in an order that the shape fixes. In NCHW the elements of a row's channel are
// neighbours, and a block of threads combines them. In NHWC neighbours are of other channels: the tensor is a list of
// lines (pixels) of all channels. Lines are cut into pieces, a thread adds up a few neighbouring channels of a piece,
// and another kernel combines the pieces. Only for .cu files.
namespace hp::cuda {

// What is summed, `Of`:
//   struct Value; using Element = ...; Value Identity() const; Value Combine(const Value& a, const Value& b) const;
//   Value At(int64_t offset) const;   the value of one element
// and, for W channels of consecutive lines, without a division for each element:
//   static constexpr int kLinesAhead;   a thread loads so many lines before it uses the first
//   bool InPacks() const;   whether addresses are aligned for packs
//   struct Line<W>; Line<W> Load<W>(int64_t offset) const;
//   struct Sums<W>;   of no lines at first
//   void Begin(const Line<W>& first, Sums<W>* sums) const;
//   void Add(const Line<W>& line, Sums<W>* sums) const;
//   void EndRun(int64_t lines, Sums<W>* sums) const;   behind `lines` Adds, kRunLines at most
//   Value ValueOf(const Sums<W>& sums, int w) const;

/// So few that plain sums over them are exact enough, and what EndRun costs does not count.
constexpr int64_t kRunLines = 32;

/// Moments: mean and sum of squared differences from it. Source: Chan, Golub, LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", 1979.
template <typename T>
struct MomentsOf {
  struct Value {
    float count, mean, squares;
  };
  using Element = T;
  const T* x;
  HP_HOST_DEVICE Value Identity() const { return {0, 0, 0}; }
  HP_HOST_DEVICE Value At(int64_t offset) const { return {1, ToFloat(x[offset]), 0}; }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const float count = a.count + b.count, difference = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + difference * share, a.squares + b.squares + difference * difference * a.count * share};
  }

  static constexpr int kLinesAhead = 8;
  template <int W>
  using Line = Pack<T, W>;
  /// The moments of the runs that have ended. Those of the run at hand are sums of differences from their mean, and of
  /// the differences' squares, which a short run near that mean makes as exact as Combine would.
  template <int W>
  struct Sums {
    float count = 0;
    Pack<float, W> mean = {}, squares = {}, difference = {}, square = {};
  };
  bool InPacks() const { return Packable({x}); }
  template <int W>
  HP_HOST_DEVICE Line<W> Load(int64_t offset) const {
    return LoadPack<W>(x + offset);
  }
  template <int W>
  HP_HOST_DEVICE void Begin(const Line<W>& first, Sums<W>* sums) const {
    for (int w = 0; w < W; ++w) sums->mean.of[w] = ToFloat(first.of[w]);
  }
  template <int W>
  HP_HOST_DEVICE void Add(const Line<W>& line, Sums<W>* sums) const {
    for (int w = 0; w < W; ++w) {
      const float difference = ToFloat(line.of[w]) - sums->mean.of[w];
      sums->difference.of[w] += difference;
      sums->square.of[w] += difference * difference;
    }
  }
  template <int W>
  HP_HOST_DEVICE void EndRun(int64_t lines, Sums<W>* sums) const {
    const float added = static_cast<float>(lines), each = 1 / added, before = sums->count;
    sums->count = before + added;
    const float share = added / sums->count;
    for (int w = 0; w < W; ++w) {
      const float difference = sums->difference.of[w] * each;
      const float squares = sums->square.of[w] - sums->difference.of[w] * difference;
      sums->squares.of[w] += (squares < 0 ? 0 : squares) + difference * difference * before * share;
      sums->mean.of[w] += difference * share;
    }
    sums->difference = {}, sums->square = {};
  }
  template <int W>
  HP_HOST_DEVICE Value ValueOf(const Sums<W>& sums, int w) const {
    return {sums.count, sums.mean.of[w], sums.squares.of[w]};
  }
};

/// The sums of dy, and of dy weight(z), z being what a parameter of the channel goes together with.
/// @tparam Function of broadcast_rules.h; by default the weight is z. If it does not read z, z may be null.
template <typename T, typename Function = broadcast::Product>
struct GradientSums {
  struct Value {
    float sum, product;
  };
  using Element = T;
  const T *z, *dy;
  Function function = {};
  HP_HOST_DEVICE Value Identity() const { return {0, 0}; }
  HP_HOST_DEVICE Value At(int64_t offset) const {
    const float gradient = ToFloat(dy[offset]);
    if constexpr (!Function::kWeighs) {
      return {gradient, gradient * function.Weight(0)};
    } else {
      return {gradient, gradient * function.Weight(ToFloat(z[offset]))};
    }
  }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return {a.sum + b.sum, a.product + b.product}; }

  static constexpr int kLinesAhead = Function::kWeighs ? 4 : 8;
  template <int W>
  struct Line {
    Pack<T, W> z, dy;
  };
  template <int W>
  struct Sums {
    Pack<float, W> sum = {}, product = {};
  };
  bool InPacks() const { return Packable({z, dy}); }
  template <int W>
  HP_HOST_DEVICE Line<W> Load(int64_t offset) const {
    Line<W> line = {};
    if constexpr (Function::kWeighs) line.z = LoadPack<W>(z + offset);
    line.dy = LoadPack<W>(dy + offset);
    return line;
  }
  template <int W>
  HP_HOST_DEVICE void Begin(const Line<W>&, Sums<W>*) const {}
  template <int W>
  HP_HOST_DEVICE void Add(const Line<W>& line, Sums<W>* sums) const {
    for (int w = 0; w < W; ++w) {
      const float gradient = ToFloat(line.dy.of[w]);
      sums->sum.of[w] += gradient;
      sums->product.of[w] += gradient * function.Weight(Function::kWeighs ? ToFloat(line.z.of[w]) : 0);
    }
  }
  template <int W>
  HP_HOST_DEVICE void EndRun(int64_t, Sums<W>*) const {}
  template <int W>
  HP_HOST_DEVICE Value ValueOf(const Sums<W>& sums, int w) const {
    return {sums.sum.of[w], sums.product.of[w]};
  }
};

/// NHWC: groups of lines, each line with all channels, and how a group's lines are cut into pieces.
struct ChannelLines {
  int64_t groups, lines, channels;
  int64_t pieces = 1, lines_in_piece = 0;

  ChannelLines(int64_t groups, int64_t lines, int64_t channels) : groups(groups), lines(lines), channels(channels) {
    // 64 channels of 16 bits are 8 packs, so that 4,096 pieces are 32,768 threads, 128 blocks, which have 4.2 MB on
    // their way with 8 lines of 16 bytes each. Values are 3 MiB at most. The last kernel has a block of threads for
    // each channel, where a thread combines up to 16 of them.
    constexpr int64_t kValues = 256 * 1024, kMostPieces = 4096, kLeastLines = kRunLines, kWhole = 8;
    const int64_t values = std::max<int64_t>(groups * channels, 1);
    const int64_t most = std::max<int64_t>(std::min({kValues / values, kMostPieces, lines / kLeastLines}), 1);
    lines_in_piece = ((lines + most - 1) / most + kWhole - 1) / kWhole * kWhole;
    if (lines > 0) pieces = (lines + lines_in_piece - 1) / lines_in_piece;
  }

  /// Whether a tensor is reduced so. One channel's elements are neighbours in both layouts; of one pixel NCHW is NHWC.
  static bool Holds(const Channels& shape) { return shape.pixels == 1 || (shape.nhwc && shape.channels > 1); }
  static ChannelLines OfTensor(const Channels& shape) { return {1, shape.rows * shape.pixels, shape.channels}; }
  static ChannelLines OfEachRow(const Channels& shape) { return {shape.rows, shape.pixels, shape.channels}; }
};

/// Element i = (group, piece, W channels): writes the values of the piece's lines, taken in their order. Neighbouring
/// threads read neighbouring channels.
template <typename Of, int W>
struct SumLines {
  Of of;
  ChannelLines shape;
  typename Of::Value* values;  ///< [groups][pieces][channels]
  HP_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t packs = shape.channels / W, piece = i / packs, channel = (i - piece * packs) * W;
    const int64_t group = piece / shape.pieces, begin = (piece - group * shape.pieces) * shape.lines_in_piece;
    const int64_t end = Least(begin + shape.lines_in_piece, shape.lines);
    const int64_t first = (group * shape.lines + begin) * shape.channels + channel;
    typename Of::template Sums<W> sums;
    for (int64_t run = begin; run < end; run += kRunLines) {
      const int64_t run_end = Least(run + kRunLines, end);
      int64_t line = run;
      for (; line + Of::kLinesAhead <= run_end; line += Of::kLinesAhead) {
        Take<Of::kLinesAhead>(first, line - begin, &sums);
      }
      for (; line < run_end; ++line) Take<1>(first, line - begin, &sums);
      of.EndRun(run_end - run, &sums);
    }
    for (int w = 0; w < W; ++w) values[piece * shape.channels + channel + w] = of.ValueOf(sums, w);
  }

 private:
  HP_HOST_DEVICE static int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
  template <int L>
  HP_HOST_DEVICE void Take(int64_t first, int64_t line, typename Of::template Sums<W>* sums) const {
    typename Of::template Line<W> lines[L];
    for (int l = 0; l < L; ++l) lines[l] = of.template Load<W>(first + (line + l) * shape.channels);
    if (line == 0) of.Begin(lines[0], sums);
    for (int l = 0; l < L; ++l) of.Add(lines[l], sums);
  }
};

/// The values of parts [groups][parts][channels] combined: finish(group * channels + channel, value).
template <typename Of, typename End>
struct OverParts {
  using Value = typename Of::Value;
  Of of;
  End finish;
  int64_t parts, channels;
  const Value* values;
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE Value Map(int64_t item, int64_t part) const {
    const int64_t group = item / channels;
    return values[(group * parts + part) * channels + item - group * channels];
  }
  HP_HOST_DEVICE void Finish(int64_t item, const Value& value) const { finish(item, value); }
};
template <typename Of, typename End>
void CombineParts(const GpuStream& stream, int64_t groups, int64_t parts, int64_t channels, const Of& of,
                  const typename Of::Value* values, const End& finish) {
  const OverParts<Of, End> rest = {of, finish, parts, channels, values};
  constexpr int64_t kFew = 8;  // each waits for the one before it
  if (parts <= kFew) return ReduceShortRows(stream, groups * channels, parts, rest);
  ReduceRows(stream, groups * channels, parts, rest);
}

/// @param values scratch for as many as `shape` has pieces of channels.
template <typename Of, typename End>
void ReduceLines(const GpuStream& stream, const ChannelLines& shape, const Of& of, typename Of::Value* values,
                 const End& finish) {
  const int64_t count = shape.groups * shape.pieces * shape.channels;
  constexpr int kWidth = kPackWidth<typename Of::Element>, kLess = 4;
  if (of.InPacks() && shape.channels % kWidth == 0) {
    ForEach(stream, count / kWidth, SumLines<Of, kWidth>{of, shape, values});
  } else if (of.InPacks() && shape.channels % kLess == 0) {
    ForEach(stream, count / kLess, SumLines<Of, kLess>{of, shape, values});
  } else {
    ForEach(stream, count, SumLines<Of, 1>{of, shape, values});
  }
  CombineParts(stream, shape.groups, shape.pieces, shape.channels, of, values, finish);
}

/// NCHW: the elements of each row's channel.
template <typename Of, typename End>
struct InRow {
  using Value = typename Of::Value;
  Of of;
  int64_t pixels;
  End finish;
  HP_HOST_DEVICE Value Identity() const { return of.Identity(); }
  HP_HOST_DEVICE Value Combine(const Value& a, const Value& b) const { return of.Combine(a, b); }
  HP_HOST_DEVICE Value Map(int64_t item, int64_t pixel) const { return of.At(item * pixels + pixel); }
  HP_HOST_DEVICE void Finish(int64_t item, const Value& value) const { finish(item, value); }
};
template <typename Of, typename End>
void ReduceInRows(const GpuStream& stream, const Channels& shape, const Of& of, const End& finish) {
  const InRow<Of, End> each = {of, shape.pixels, finish};
  constexpr int64_t kShort = 32;
  if (shape.pixels <= kShort) return ReduceShortRows(stream, shape.rows * shape.channels, shape.pixels, each);
  ReduceRows(stream, shape.rows * shape.channels, shape.pixels, each);
}

template <typename Value>
struct KeepValues {
  Value* values;
  HP_HOST_DEVICE void operator()(int64_t item, const Value& value) const { values[item] = value; }
};

/// Values of scratch that ReduceChannels needs.
inline int64_t ChannelValues(const Channels& shape) {
  return (ChannelLines::Holds(shape) ? ChannelLines::OfTensor(shape).pieces : shape.rows) * shape.channels;
}

/// Combines all elements of each channel and calls finish(int64_t channel, value).
/// @param values scratch [ChannelValues(shape)].
template <typename Of, typename End>
void ReduceChannels(const GpuStream& stream, const Channels& shape, const Of& of, typename Of::Value* values,
                    const End& finish) {
  if (ChannelLines::Holds(shape)) return ReduceLines(stream, ChannelLines::OfTensor(shape), of, values, finish);
  ReduceInRows(stream, shape, of, KeepValues<typename Of::Value>{values});
  CombineParts(stream, 1, shape.rows, shape.channels, of, values, finish);
}

/// Values of scratch that ReduceEachChannel needs.
inline int64_t EachChannelValues(const Channels& shape) {
  return ChannelLines::Holds(shape) ? shape.rows * ChannelLines::OfEachRow(shape).pieces * shape.channels : 0;
}

/// Combines the elements of each row's channel and calls finish(int64_t row * channels + channel, value).
/// @param values scratch [EachChannelValues(shape)].
template <typename Of, typename End>
void ReduceEachChannel(const GpuStream& stream, const Channels& shape, const Of& of, typename Of::Value* values,
                       const End& finish) {
  if (ChannelLines::Holds(shape)) return ReduceLines(stream, ChannelLines::OfEachRow(shape), of, values, finish);
  ReduceInRows(stream, shape, of, finish);
}

}  // namespace hp::cuda
