#pragma once

#include <cstdint>

namespace hp {

/// The most classes that an update computes on a shard that has `classes` of them, where each is drawn with probability
/// `rate` and the labels of its `labels` samples are added: as many as a sample exceeds with a probability below 1e-19,
/// and the labels, but never more than there are.
///
/// By Bernstein's inequality for a sum of draws of mean m and variance v, P(sum >= m + t) <= exp(-t^2 / (2 v + 2 t /
/// 3)). For many classes t is about 9.4 sigma. A multiple of sigma alone is too little for few: of draws with mean 1,
/// one sample in ten million has more than 1 + 8 sigma.
/// @param rate in (0, 1]. @return at least 1.
int64_t SampleRoom(int64_t classes, double rate, int64_t labels);

}  // namespace hp
