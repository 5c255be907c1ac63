#pragma once

#include "hp/status.h"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace hp {

/// A secret key, of which each purpose has its own.
using SecretKey = std::array<std::byte, 32>;

/// What a process may prove to a job by the file that it was given.
struct JobKeys {
  bool node = false;           ///< `nodes` is known: the process may be a node
  SecretKey nodes = {};        ///< between nodes
  SecretKey readers = {};      ///< between a node and a client that reads weights
  SecretKey controllers = {};  ///< between a node and a client that gives orders; known where `node` is true
  SecretKey rendezvous = {};   ///< of nodes that have no table yet; known where `nodes` is
};

/// The job token: 32 random bytes that only those know who may take part in a job. The file has one line:
///   hpnode token HEX       what nodes have; every key follows from it (HKDF-SHA256, RFC 5869)
///   hpnode read key HEX    what a reader of weights may be given: it proves a reader, and neither a node nor a client
///                          that gives orders
/// Checked on the open file: nobody but its owner (or a group that may read) gets at it, so that a token that everybody
/// could read is noticed. Symbolic links are followed.
/// @return kNotFound: can't be opened; kInvalidArgument: other users can read or write it, or it is no such file.
StatusOr<JobKeys> ReadJobKeys(const std::string& path);
/// Writes a new token, readable by its owner alone. @return kFailedPrecondition: the file exists already;
/// kInvalidArgument: it can't be written.
Status WriteNewToken(const std::string& path);
/// Writes the read key that belongs to a token. @param keys of that token. Errors as WriteNewToken.
Status WriteReadKey(const JobKeys& keys, const std::string& path);

/// Bytes that nobody can guess.
SecretKey RandomBytes();
/// HMAC-SHA256.
SecretKey Authenticate(const SecretKey& key, std::string_view message);
/// Compares in a time that does not depend on the bytes.
bool SameBytes(const SecretKey& a, const SecretKey& b);

}  // namespace hp
