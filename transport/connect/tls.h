#pragma once

#include "base/job_token.h"
#include "hp/status.h"
#include "transport/connect/byte_stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace hp {

/// What the TLS connections of one process have in common: TLS 1.3 with a pre-shared key that follows from the job's
/// token, and a Diffie-Hellman exchange (ECDHE), so that who learns the token later can't read what was recorded. No
/// certificates: a peer without the key gets no further than its first message. The keys of nodes and of readers of
/// weights are two, told apart by the identity "node" or "read" that the connecting side sends, as is that of
/// clients that give orders, "control".
class TlsContext {
 public:
  struct Options {
    JobKeys keys;          ///< with the read key alone, connections can only be made to nodes
    bool client = false;   ///< connect as a reader of weights
    bool control = false;  ///< as a client: connect as one that gives orders
    /// After so many records the sender takes a new key (RFC 8446, section 5.5, allows AES-GCM 2^24.5).
    int64_t records_per_key = int64_t{1} << 22;
  };
  explicit TlsContext(Options options);
  ~TlsContext();

  /// @param accepted whether the peer connected to us. The context must outlive the stream.
  std::unique_ptr<ByteStream> NewStream(TcpSocket socket, bool accepted) const;

 private:
  friend class TlsStream;
  friend struct TlsCallbacks;
  const Options options_;
  const SecretKey node_psk_, read_psk_, control_psk_;
  ssl_ctx_st* const context_;
};

/// A ByteStream over TLS, whose handshake the first read or write performs. A record's bytes are copied once, from
/// where they were decrypted to where the caller wants them, and not before the record's tag was found right; what is
/// sent is encrypted into a buffer that the socket takes from. The progress thread alone touches it.
class TlsStream : public ByteStream {
 public:
  TlsStream(const TlsContext& context, TcpSocket socket, bool accepted);
  ~TlsStream() override;

  ReadResult Read(std::span<const iovec> to) override;
  WriteResult Write(std::span<const iovec> from) override;
  bool encrypted() const override { return true; }

 protected:
  bool readable() const override;
  bool wants_write() const override { return out_sent_ < out_.size(); }

 private:
  friend struct TlsCallbacks;
  /// What a call of OpenSSL that did not succeed means; kOk where it only waits for the socket.
  ReadResult Failure(int returned);
  Status Explain(unsigned long error) const;
  /// @return not ok: the handshake ended without the key, and the stream has failed.
  Status CheckKeyed();
  /// Encrypts `piece`, of at most a record. @return false: not done, and `*result` says why if the stream failed.
  bool Encrypt(std::span<const std::byte> piece, WriteResult* result);
  /// Gives the socket what is encrypted. @return false: it did not take everything, or failed; `*result` says which.
  bool Drain(WriteResult* result);

  const TlsContext& context_;
  ssl_st* const ssl_;
  bool keyed_ = false;          // the handshake is done, by the key
  size_t arrived_ = 0;          // from the socket, since the last Read began
  int socket_error_ = 0;        // errno of the receive that failed
  ReadResult ended_;            // not kOk: what reads return from now on
  std::vector<std::byte> out_;  // encrypted
  size_t out_sent_ = 0;         // of it, taken by the socket
  int64_t records_ = 0;         // sent under the key in use
};

}  // namespace hp
