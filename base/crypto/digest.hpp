// Hashes and keyed hashes by OpenSSL, whose headers stay in the .cpp file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace rtrain::crypto {

// Computes SHA-256 of bytes that are added in pieces. `hex` ends the computation and is called once.
class Sha256 {
  public:
    Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;
    ~Sha256();
    void add(std::string_view bytes);
    std::string hex();  // 64 lower-case digits

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

// Computes MD5 of bytes that are added in pieces, for the header Content-MD5 of object stores only.
class Md5 {
  public:
    Md5();
    Md5(Md5&&) noexcept;
    Md5& operator=(Md5&&) noexcept;
    ~Md5();
    void add(std::string_view bytes);
    std::string bytes();  // 16 bytes; called once

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view bytes);                         // 64 lower-case digits
std::string md5(std::string_view bytes);                                // 16 bytes, for Content-MD5 only
std::string hmac_sha256(std::string_view key, std::string_view bytes);  // 32 bytes (RFC 2104)

}  // namespace rtrain::crypto
