// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// The bytes of a text as tokens (vocabulary 256). Sample i is a function of the file, the
/// seed and i alone, whatever rank asks. Within an epoch every window of the file comes once, in
/// an order of that epoch's own; the last window wraps to the beginning.
class ByteDataset {
public:
    static constexpr std::int64_t kVocabSize = 256;

    /// A file, or a folder: then all files below it, in the order of their paths.
    /// Errors: Io when a file cannot be read; InvalidInput when it is empty or shorter than
    /// seq_len + 1 bytes.
    [[nodiscard]] static Result<ByteDataset> open(const std::string& path, std::int64_t seq_len,
                                                  std::uint64_t seed);
    [[nodiscard]] static Result<ByteDataset> fromBytes(std::vector<std::uint8_t> bytes,
                                                       std::int64_t seq_len, std::uint64_t seed);

    /// tokens [seq_len], targets [seq_len]: targets[j] is the byte after tokens[j]. sample >= 0.
    void sample(std::int64_t sample, Indices tokens, Indices targets) const;
    [[nodiscard]] std::int64_t samplesPerEpoch() const { return m_windows; }
    [[nodiscard]] std::int64_t seqLen() const { return m_seq_len; }

private:
    ByteDataset() = default;

    std::vector<std::uint8_t> m_bytes;
    std::int64_t m_seq_len = 0;
    std::int64_t m_windows = 0;
    std::uint64_t m_seed = 0;
};

}  // namespace piper
