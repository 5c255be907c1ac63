#pragma once

namespace hp {

/// Rounds in which each of `hosts` hosts meets each other one once, and in each round at most one: a measurement has
/// the links of its two hosts to itself. Source: the circle method of round-robin tournaments.
constexpr int RoundsOf(int hosts) { return hosts < 2 ? 0 : hosts - 1 + hosts % 2; }

/// Whom `host` meets in a round, from 0; -1: nobody.
constexpr int PartnerOf(int host, int round, int hosts) {
  const int circle = hosts - 1 + hosts % 2;  // one stands still: the last host, or with an odd number nobody
  const int still = circle;
  const auto turned = [&](int place) { return ((place % circle) + circle) % circle; };
  int partner;
  if (host == still) {
    // Who would meet itself: 2x = round.
    partner = turned(round * ((circle + 1) / 2));
  } else {
    partner = turned(round - host);
    if (partner == host) partner = still;
  }
  return partner < hosts ? partner : -1;
}

}  // namespace hp
