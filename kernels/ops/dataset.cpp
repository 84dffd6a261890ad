// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/dataset.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/base/read_all.h"
#include "kernels/ops/counter_random.h"

namespace piper {

namespace {

/// A permutation of 0 .. n-1 as a function of the index: four Feistel rounds over the smallest even
/// number of bits that holds n, walked until the value lies below n.
std::uint64_t permuted(std::uint64_t index, std::uint64_t n, std::uint64_t key) {
    std::uint64_t half_bits = 1;
    while ((std::uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
    const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
    do {
        std::uint64_t left = index >> half_bits;
        std::uint64_t right = index & mask;
        for (std::uint64_t round = 0; round < 4; ++round) {
            const std::uint64_t mixed = left ^ (mixBits(mixBits(key, round), right) & mask);
            left = right;
            right = mixed;
        }
        index = left << half_bits | right;
    } while (index >= n);
    return index;
}

Result<std::vector<std::uint8_t>> readBytes(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        Error error =
            fail(ErrorCode::Io, "cannot read the training text: {}", std::strerror(errno)).at(path);
        error.hint =
            "name any readable text file, e.g. a licence text of /usr/share/common-licenses";
        return error;
    }
    const std::optional<std::string> text = readAll(file);
    if (!text)
        return fail(ErrorCode::Io, "reading the training text broke off: {}", std::strerror(errno))
            .at(path);
    return std::vector<std::uint8_t>(text->begin(), text->end());
}

/// Every regular file below a folder, one after the other in the order of their paths.
Result<std::vector<std::uint8_t>> readFolder(const std::string& path) {
    namespace fs = std::filesystem;
    std::vector<std::string> files;
    std::error_code error, unreadable;
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
         at.increment(error))
        if (at->is_regular_file(unreadable)) files.push_back(at->path().string());
    if (error)
        return fail(ErrorCode::Io, "cannot list the folder of training texts: {}", error.message())
            .at(path);
    std::sort(files.begin(), files.end());
    std::vector<std::uint8_t> all;
    for (const std::string& file : files) {
        PIPER_ASSIGN(const std::vector<std::uint8_t> one, readBytes(file));
        all.insert(all.end(), one.begin(), one.end());
    }
    if (all.empty())
        return fail(ErrorCode::InvalidInput, "the folder has {} files and no text", files.size())
            .at(path);
    return all;
}

}  // namespace

Result<ByteDataset> ByteDataset::open(const std::string& path, std::int64_t seq_len,
                                      std::uint64_t seed) {
    std::error_code ignored;
    PIPER_ASSIGN(std::vector<std::uint8_t> bytes,
                 std::filesystem::is_directory(path, ignored) ? readFolder(path) : readBytes(path));
    Result<ByteDataset> made = fromBytes(std::move(bytes), seq_len, seed);
    if (!made.ok()) return std::move(made).error().at(path);
    return made;
}

Result<ByteDataset> ByteDataset::fromBytes(std::vector<std::uint8_t> bytes, std::int64_t seq_len,
                                           std::uint64_t seed) {
    if (seq_len <= 0)
        return fail(ErrorCode::InvalidInput, "seq_len {} of the data must be positive", seq_len);
    if (bytes.empty()) return fail(ErrorCode::InvalidInput, "the training text is empty");
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (size < seq_len + 1) {
        Error error = fail(ErrorCode::InvalidInput,
                           "the training text has {} bytes; seq_len {} needs at least {}", size,
                           seq_len, seq_len + 1);
        error.hint = "use a longer text or a smaller seq_len";
        return error;
    }
    ByteDataset data;
    data.m_windows = (size + seq_len - 1) / seq_len;
    data.m_bytes = std::move(bytes);
    data.m_seq_len = seq_len;
    data.m_seed = seed;
    return data;
}

void ByteDataset::sample(std::int64_t sample, Indices tokens, Indices targets) const {
    PIPER_CHECK(sample >= 0);
    const auto length = static_cast<std::size_t>(m_seq_len);
    PIPER_CHECK(tokens.size() == length && targets.size() == length);
    const auto windows = static_cast<std::uint64_t>(m_windows);
    const auto number = static_cast<std::uint64_t>(sample);
    const std::uint64_t window =
        permuted(number % windows, windows, mixBits(m_seed, number / windows));
    const std::size_t start = static_cast<std::size_t>(window) * length;
    for (std::size_t j = 0; j < length; ++j) {
        tokens[j] = m_bytes[(start + j) % m_bytes.size()];
        targets[j] = m_bytes[(start + j + 1) % m_bytes.size()];
    }
}

}  // namespace piper
