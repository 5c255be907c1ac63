// OpenSSL reads from the socket itself, through a BIO that counts what arrives, into a buffer of several records; there
// it checks and decrypts them in place, and SSL_read copies to the caller. It writes into `out_`, which never refuses,
// so that a call of SSL_write is never to be repeated with the same bytes; Drain hands `out_` to the socket. So both
// directions go on whenever the socket lets them, whichever of them the handshake needs next.
#include "transport/connect/tls.h"

#include <glog/logging.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace hp {
namespace {

constexpr std::string_view kNodeIdentity = "node", kReadIdentity = "read", kControlIdentity = "control";
// The hash of the pre-shared key, SHA-256, leaves these: the first where processors have AES, the other elsewhere.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kPskCipher[] = {0x13, 0x01};
constexpr size_t kRecordBytes = 16 << 10;       // the most that one record carries
constexpr size_t kReadBufferBytes = 128 << 10;  // of encrypted bytes, taken from the socket by one call
constexpr size_t kOutBytes = 128 << 10;         // encrypted before the socket is given any
constexpr size_t kSmallBytes = 1 << 10;         // headers and the like share records

SecretKey PskOf(const SecretKey& key) { return Authenticate(key, "hpnode tls 1"); }

SSL_SESSION* SessionOf(SSL* ssl, const SecretKey& psk) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kPskCipher);
  CHECK(session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(psk.data()), psk.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
      << "OpenSSL has no pre-shared keys for TLS 1.3";
  return session;
}

std::span<const std::byte> BytesOf(const iovec& range) {
  return {static_cast<const std::byte*>(range.iov_base), range.iov_len};
}

}  // namespace

/// What OpenSSL calls.
struct TlsCallbacks {
  static const TlsContext& ContextOf(SSL* ssl) {
    return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  static int UsePsk(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* identity_bytes,
                    SSL_SESSION** session) {
    const TlsContext& context = ContextOf(ssl);
    const std::string_view name = !context.options_.client   ? kNodeIdentity
                                  : context.options_.control ? kControlIdentity
                                                             : kReadIdentity;
    *identity = reinterpret_cast<const unsigned char*>(name.data());
    *identity_bytes = name.size();
    return FindPsk(ssl, *identity, *identity_bytes, session);
  }

  // An identity that nobody has leaves no way to go on, since there are no certificates.
  static int FindPsk(SSL* ssl, const unsigned char* identity, size_t identity_bytes, SSL_SESSION** session) {
    const TlsContext& context = ContextOf(ssl);
    const std::string_view name(reinterpret_cast<const char*>(identity), identity_bytes);
    *session = name == kNodeIdentity      ? SessionOf(ssl, context.node_psk_)
               : name == kReadIdentity    ? SessionOf(ssl, context.read_psk_)
               : name == kControlIdentity ? SessionOf(ssl, context.control_psk_)
                                          : nullptr;
    return 1;
  }

  static TlsStream* StreamOf(BIO* bio) { return static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int Read(BIO* bio, char* to, int size) {
    TlsStream* const stream = StreamOf(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got;
    do {
      got = recv(stream->fd(), to, static_cast<size_t>(size), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) stream->arrived_ += static_cast<size_t>(got);
    if (got < 0 && errno == EAGAIN) BIO_set_retry_read(bio);
    if (got < 0 && errno != EAGAIN) stream->socket_error_ = errno;
    return static_cast<int>(got);
  }

  static int Write(BIO* bio, const char* from, int size) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(from);
    StreamOf(bio)->out_.insert(StreamOf(bio)->out_.end(), bytes, bytes + size);
    return size;
  }

  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static int Create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }

  static BIO* NewBio(TlsStream* stream) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "hpnode socket");
      BIO_meth_set_read(made, &TlsCallbacks::Read);
      BIO_meth_set_write(made, &TlsCallbacks::Write);
      BIO_meth_set_ctrl(made, &TlsCallbacks::Control);
      BIO_meth_set_create(made, &TlsCallbacks::Create);
      return made;
    }();
    BIO* const bio = BIO_new(method);
    BIO_set_data(bio, stream);
    return bio;
  }
};

TlsContext::TlsContext(Options options)
    : options_(std::move(options)),
      node_psk_(PskOf(options_.keys.nodes)),
      read_psk_(PskOf(options_.keys.readers)),
      control_psk_(PskOf(options_.keys.controllers)),
      context_(SSL_CTX_new(TLS_method())) {
  CHECK((options_.client && !options_.control) || options_.keys.node)
      << "a node has the job's token, not its read key alone";
  CHECK(context_ != nullptr && SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(context_, kCiphers) == 1 && SSL_CTX_set1_groups_list(context_, "X25519:P-256") == 1)
      << "OpenSSL has no TLS 1.3";
  SSL_CTX_set_options(context_, SSL_OP_IGNORE_UNEXPECTED_EOF);  // our frames have an end of their own
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_default_read_buffer_len(context_, kReadBufferBytes);
  SSL_CTX_set_psk_use_session_callback(context_, &TlsCallbacks::UsePsk);
  SSL_CTX_set_psk_find_session_callback(context_, &TlsCallbacks::FindPsk);
  SSL_CTX_set_app_data(context_, this);
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::unique_ptr<ByteStream> TlsContext::NewStream(TcpSocket socket, bool accepted) const {
  return std::make_unique<TlsStream>(*this, std::move(socket), accepted);
}

TlsStream::TlsStream(const TlsContext& context, TcpSocket socket, bool accepted)
    : ByteStream(std::move(socket)), context_(context), ssl_(SSL_new(context.context_)) {
  CHECK(ssl_ != nullptr) << "OpenSSL has no memory";
  BIO* const bio = TlsCallbacks::NewBio(this);
  SSL_set_bio(ssl_, bio, bio);
  if (accepted) {
    SSL_set_accept_state(ssl_);
    return;
  }
  SSL_set_connect_state(ssl_);
  // There are no authorities: who answers with a certificate instead of the key is refused.
  SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

bool TlsStream::readable() const { return ended_.state != State::kOk || SSL_has_pending(ssl_) == 1; }

ByteStream::ReadResult TlsStream::Read(std::span<const iovec> to) {
  arrived_ = 0;
  ReadResult result;
  for (size_t i = 0, filled = 0; i < to.size() && ended_.state == State::kOk;) {
    size_t got = 0;
    ERR_clear_error();
    const int returned =
        SSL_read_ex(ssl_, static_cast<std::byte*>(to[i].iov_base) + filled, to[i].iov_len - filled, &got);
    if (returned != 1) {
      ended_ = Failure(returned);
      break;
    }
    if (!CheckKeyed().ok()) break;
    result.bytes += got;
    filled += got;
    if (filled < to[i].iov_len) continue;
    ++i;
    filled = 0;
  }
  WriteResult answered;  // the handshake's answers; that they failed shows when more is written
  Drain(&answered);
  if (result.bytes == 0) result = ended_;
  result.arrived = arrived_;
  return result;
}

ByteStream::WriteResult TlsStream::Write(std::span<const iovec> from) {
  WriteResult result;
  std::array<std::byte, kRecordBytes> small;  // pieces that share a record
  size_t small_bytes = 0;
  const auto send_small = [&] {
    return small_bytes == 0 || Encrypt({small.data(), std::exchange(small_bytes, 0)}, &result);
  };
  for (const iovec& range : from) {
    std::span<const std::byte> rest = BytesOf(range);
    if (rest.size() <= kSmallBytes) {
      if (small_bytes + rest.size() > small.size() && !send_small()) return result;
      std::copy(rest.begin(), rest.end(), small.begin() + small_bytes);
      small_bytes += rest.size();
      continue;
    }
    if (!send_small()) return result;
    while (!rest.empty()) {
      const size_t piece = std::min(rest.size(), kRecordBytes);
      if (!Encrypt(rest.first(piece), &result)) return result;
      rest = rest.subspan(piece);
    }
  }
  if (send_small()) Drain(&result);
  return result;
}

bool TlsStream::Encrypt(std::span<const std::byte> piece, WriteResult* result) {
  if (out_.size() - out_sent_ >= kOutBytes && !Drain(result)) return false;
  if (records_ >= context_.options_.records_per_key && SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    records_ = 0;
  }
  size_t taken = 0;
  ERR_clear_error();
  const int returned = SSL_write_ex(ssl_, piece.data(), piece.size(), &taken);
  if (returned == 1) {
    ++records_;
    result->bytes += taken;
    const Status keyed = CheckKeyed();
    if (!keyed.ok()) *result = {.state = State::kFailed, .status = keyed};
    return keyed.ok();
  }
  // Only the handshake makes a write wait, and then for the peer.
  const ReadResult failure = Failure(returned);
  if (failure.state == State::kOk) {
    Drain(result);
    return false;
  }
  result->state = State::kFailed;
  result->status = failure.state == State::kEnd ? Unavailable("it closed the connection") : failure.status;
  return false;
}

bool TlsStream::Drain(WriteResult* result) {
  while (out_sent_ < out_.size()) {
    const ssize_t sent = send(fd(), out_.data() + out_sent_, out_.size() - out_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      result->blocked = true;
      if (out_sent_ < kOutBytes) return false;
      out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_sent_));
      out_sent_ = 0;
      return false;
    }
    if (sent < 0) {
      result->state = State::kFailed;
      result->status = Unavailable("%s", std::strerror(errno));
      return false;
    }
    out_sent_ += static_cast<size_t>(sent);
  }
  out_.clear();
  out_sent_ = 0;
  return true;
}

// A session that was found by its key counts as resumed; one that was made by a certificate does not. The dialler takes
// no certificate and the acceptor has none, so this is a second bolt on the same door: should the first ever be opened,
// what was encrypted for a stranger is still not sent.
Status TlsStream::CheckKeyed() {
  if (keyed_ || SSL_is_init_finished(ssl_) == 0) return OkStatus();
  keyed_ = SSL_session_reused(ssl_) == 1;
  if (keyed_) return OkStatus();
  out_.clear();
  out_sent_ = 0;
  ended_ = {.state = State::kFailed, .status = FailedPrecondition("it has not proven the job's token")};
  return ended_.status;
}

ByteStream::ReadResult TlsStream::Failure(int returned) {
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {};
    case SSL_ERROR_ZERO_RETURN:
      return {.state = State::kEnd};
    case SSL_ERROR_SYSCALL:
      if (socket_error_ == 0) return {.state = State::kEnd};
      return {.state = State::kFailed, .status = Unavailable("%s", std::strerror(socket_error_))};
    default:
      return {.state = State::kFailed, .status = Explain(ERR_peek_error())};
  }
}

Status TlsStream::Explain(unsigned long error) const {
  const int reason = ERR_GET_REASON(error);
  const char* const text = ERR_reason_error_string(error);
  if (keyed_) return Unavailable("TLS: %s", text == nullptr ? "unknown error" : text);
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    return FailedPrecondition("it does not speak TLS: does its table say tls: true?");
  }
  return FailedPrecondition("TLS was not set up (%s): does it have the same --token_file?",
                            text == nullptr ? "unknown error" : text);
}

}  // namespace hp
