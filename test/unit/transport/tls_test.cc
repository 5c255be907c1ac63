// Encrypted streams: what arrives, what strangers get, and that a byte reaches its place only when its record's tag was
// found right.
#include "transport/connect/tls.h"

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hp {
namespace {

using testing::HasSubstr;
using State = ByteStream::State;

JobKeys Token(int byte) {
  JobKeys keys{.node = true};
  keys.nodes.fill(static_cast<std::byte>(byte));
  keys.readers.fill(static_cast<std::byte>(byte + 1));
  return keys;
}

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

class TlsTest : public testing::Test {
 protected:
  /// Two connected sockets. What one sends lies in the other's kernel buffer when it has sent it.
  std::pair<TcpSocket, TcpSocket> Sockets() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    std::pair<TcpSocket, TcpSocket> pair{TcpSocket(io_), TcpSocket(io_)};
    for (auto [socket, fd] : {std::pair(&pair.first, fds[0]), std::pair(&pair.second, fds[1])}) {
      socket->assign(boost::asio::ip::tcp::v4(), fd);
      socket->non_blocking(true);
    }
    return pair;
  }
  void Connect(const TlsContext& dialing, const TlsContext& accepting) {
    auto [one, other] = Sockets();
    dialer_ = dialing.NewStream(std::move(one), /*accepted=*/false);
    acceptor_ = accepting.NewStream(std::move(other), /*accepted=*/true);
  }
  /// Sends `text` from one to the other. @return how each side ended.
  std::pair<ByteStream::ReadResult, ByteStream::ReadResult> Say(ByteStream* from, ByteStream* to,
                                                                const std::string& text) {
    std::pair<ByteStream::ReadResult, ByteStream::ReadResult> results;
    heard_.assign(text.size(), '.');
    from->WriteAll(BytesOf(text), [&](const auto& result) { results.first = result; });
    to->ReadAll(std::as_writable_bytes(std::span(heard_)), [&](const auto& result) { results.second = result; });
    io_.restart();
    while (io_.poll() > 0) continue;
    return results;
  }
  /// Reads once. @return the result, with what was read in `heard_`.
  ByteStream::ReadResult ReadOnce(ByteStream* from, size_t bytes) {
    heard_.assign(bytes, '.');
    const iovec range = {heard_.data(), bytes};
    return from->Read({&range, 1});
  }
  /// What the dialer sends for `text`, taken off the wire.
  std::string RecordOf(const std::string& text) {
    EXPECT_EQ(WriteOnce(dialer_.get(), text).bytes, text.size());
    std::string record(text.size() + 1000, '\0');
    record.resize(static_cast<size_t>(recv(acceptor_->socket().native_handle(), record.data(), record.size(), 0)));
    return record;
  }
  static ByteStream::WriteResult WriteOnce(ByteStream* to, const std::string& text) {
    const iovec range = {const_cast<char*>(text.data()), text.size()};
    return to->Write({&range, 1});
  }

  boost::asio::io_context io_{1};
  std::unique_ptr<ByteStream> dialer_, acceptor_;
  std::string heard_;
};

TEST_F(TlsTest, BothWays) {
  const TlsContext context({.keys = Token(1)});
  Connect(context, context);
  EXPECT_EQ(Say(dialer_.get(), acceptor_.get(), "hello").second.bytes, 5u);
  EXPECT_EQ(heard_, "hello");
  Say(acceptor_.get(), dialer_.get(), "and back");
  EXPECT_EQ(heard_, "and back");
}

TEST_F(TlsTest, NothingOfItIsInClear) {
  const TlsContext context({.keys = Token(1)});
  Connect(context, context);
  Say(dialer_.get(), acceptor_.get(), "first");
  const std::string secret(100, 'x');
  const std::string raw = RecordOf(secret);
  EXPECT_GT(raw.size(), secret.size());
  EXPECT_THAT(raw, testing::Not(HasSubstr("xxxx")));
}

TEST_F(TlsTest, ManyBytesInPiecesOfAllSizes) {
  const TlsContext context({.keys = Token(1), .records_per_key = 3});  // so that keys change all the time
  Connect(context, context);
  Say(dialer_.get(), acceptor_.get(), "first");
  std::string sent(3'000'000, '\0'), got;
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 + i / 251);
  size_t at = 0;
  bool held_back = false;
  while (got.size() < sent.size()) {
    if (at < sent.size() || held_back) {
      const size_t sizes[] = {48, 200'000, 64, 17'000};
      std::vector<iovec> ranges;
      size_t offset = at;
      for (size_t size : sizes) {
        const size_t part = std::min(size, sent.size() - offset);
        if (part > 0) ranges.push_back({sent.data() + offset, part});
        offset += part;
      }
      const auto written = dialer_->Write(ranges);
      ASSERT_EQ(written.state, State::kOk) << written.status;
      at += written.bytes;
      held_back = written.blocked;
    }
    const auto read = ReadOnce(acceptor_.get(), 100'001);
    ASSERT_EQ(read.state, State::kOk) << read.status;
    got += heard_.substr(0, read.bytes);
  }
  EXPECT_TRUE(got == sent);
}

TEST_F(TlsTest, PartOfARecordIsALifeSignAndNoByte) {
  const TlsContext context({.keys = Token(1)});
  Connect(context, context);
  Say(dialer_.get(), acceptor_.get(), "first");
  const std::string record = RecordOf(std::string(1000, 'x'));
  const int wire = dialer_->socket().native_handle();
  ASSERT_EQ(send(wire, record.data(), 600, 0), 600);
  const auto part = ReadOnce(acceptor_.get(), 1000);
  EXPECT_EQ(part.state, State::kOk);
  EXPECT_EQ(part.bytes, 0u);
  EXPECT_EQ(part.arrived, 600u);
  EXPECT_EQ(heard_, std::string(1000, '.')) << "bytes of a record whose tag has not come";
  send(wire, record.data() + 600, record.size() - 600, 0);
  EXPECT_EQ(ReadOnce(acceptor_.get(), 1000).bytes, 1000u);
  EXPECT_EQ(heard_, std::string(1000, 'x'));
}

TEST_F(TlsTest, ADamagedRecordReachesNoPlace) {
  const TlsContext context({.keys = Token(1)});
  Connect(context, context);
  Say(dialer_.get(), acceptor_.get(), "first");
  std::string record = RecordOf(std::string(1000, 'x'));
  record[record.size() / 2] ^= 1;
  send(dialer_->socket().native_handle(), record.data(), record.size(), 0);
  const auto read = ReadOnce(acceptor_.get(), 1000);
  EXPECT_EQ(read.state, State::kFailed);
  EXPECT_THAT(read.status.message(), HasSubstr("TLS"));
  EXPECT_EQ(heard_, std::string(1000, '.'));
  EXPECT_EQ(ReadOnce(acceptor_.get(), 10).state, State::kFailed) << "nothing comes after it";
}

TEST_F(TlsTest, AnotherTokenIsNoKey) {
  const TlsContext ours({.keys = Token(1)}), theirs({.keys = Token(3)});
  Connect(theirs, ours);
  const auto [said, heard] = Say(dialer_.get(), acceptor_.get(), "hello");
  EXPECT_EQ(heard.state, State::kFailed);
  EXPECT_THAT(heard.status.message(), HasSubstr("does it have the same --token_file?"));
  EXPECT_EQ(said.state, State::kFailed);
  EXPECT_THAT(said.status.message(), HasSubstr("does it have the same --token_file?"));
  EXPECT_EQ(said.bytes, 0u);
}

TEST_F(TlsTest, AReaderHasAKeyOfItsOwn) {
  const TlsContext node({.keys = Token(1)});
  JobKeys read_key_alone;
  read_key_alone.readers = Token(1).readers;
  const TlsContext reader({.keys = read_key_alone, .client = true});
  Connect(reader, node);
  Say(dialer_.get(), acceptor_.get(), "weights, please");
  EXPECT_EQ(heard_, "weights, please");
  // Who has the read key can't pass for a node with it.
  JobKeys forged{.node = true};
  forged.nodes = forged.readers = read_key_alone.readers;
  const TlsContext impostor({.keys = forged});
  Connect(impostor, node);
  EXPECT_EQ(Say(dialer_.get(), acceptor_.get(), "hello").second.state, State::kFailed);
}

TEST_F(TlsTest, APeerInClear) {
  const TlsContext context({.keys = Token(1)});
  auto [one, other] = Sockets();
  dialer_ = std::make_unique<ByteStream>(std::move(one));
  acceptor_ = context.NewStream(std::move(other), /*accepted=*/true);
  const auto heard = Say(dialer_.get(), acceptor_.get(), "HPNODE\r\n and more that is no TLS").second;
  EXPECT_EQ(heard.state, State::kFailed);
  EXPECT_EQ(heard.status.message(), "it does not speak TLS: does its table say tls: true?");
}

TEST_F(TlsTest, AnEndOfTheStreamIsAnEnd) {
  const TlsContext context({.keys = Token(1)});
  Connect(context, context);
  Say(dialer_.get(), acceptor_.get(), "first");
  shutdown(dialer_->socket().native_handle(), SHUT_WR);
  EXPECT_EQ(ReadOnce(acceptor_.get(), 10).state, State::kEnd);
}

// Whoever stands in between may answer with a certificate of its own making, which needs no key.
TEST_F(TlsTest, ACertificateIsNotTakenForTheKey) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  ASSERT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  const TlsContext ours({.keys = Token(1)});
  auto [one, other] = Sockets();
  dialer_ = ours.NewStream(std::move(one), /*accepted=*/false);
  const std::unique_ptr<SSL, decltype(&SSL_free)> server(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(server.get(), static_cast<int>(other.native_handle()));
  SSL_set_accept_state(server.get());
  ByteStream::ReadResult said;
  const std::string secret = "the weights";
  dialer_->WriteAll(BytesOf(secret), [&](const auto& result) { said = result; });
  char heard[100];
  int got = 0;
  for (int i = 0; i < 100 && got <= 0 && said.state == State::kOk; ++i) {
    io_.poll();
    got = SSL_read(server.get(), heard, sizeof(heard));
  }
  EXPECT_LE(got, 0) << "it was told something";
  EXPECT_EQ(said.state, State::kFailed);
  EXPECT_EQ(said.bytes, 0u);
}

}  // namespace
}  // namespace hp
