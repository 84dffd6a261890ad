// SPDX-License-Identifier: Apache-2.0
#include "sessions/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace piper {

struct Sha256::State {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : m_state(std::make_unique<State>()) {
    PIPER_CHECK(EVP_DigestInit_ex(m_state->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
    PIPER_CHECK(EVP_DigestUpdate(m_state->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::take() {
    std::array<unsigned char, 32> digest{};
    unsigned length = 0;
    PIPER_CHECK(EVP_DigestFinal_ex(m_state->context, digest.data(), &length) == 1);
    std::string out;
    for (const unsigned char byte : digest) out += fmt::format("{:02x}", byte);
    return out;
}

Result<std::string> sha256OfFile(const std::filesystem::path& path, std::int64_t bytes) {
    std::ifstream in(path, std::ios::binary);
    std::vector<char> buffer(1U << 18);
    Sha256 hash;
    while (in && bytes != 0) {
        std::int64_t piece = static_cast<std::int64_t>(buffer.size());
        if (bytes > 0) piece = std::min(piece, bytes);
        in.read(buffer.data(), piece);
        hash.add({buffer.data(), static_cast<std::size_t>(in.gcount())});
        if (bytes > 0) bytes -= in.gcount();
    }
    if (in.is_open() && !in.bad() && bytes <= 0) return hash.take();
    Error error = fail(ErrorCode::Io, "cannot read the file to check it");
    error.where = path.string();
    return error;
}

}  // namespace piper
