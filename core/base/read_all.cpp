// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_all.h"

#include <vector>

namespace piper {

std::optional<std::string> readAll(std::istream& in) {
    constexpr std::size_t kBlock = 1 << 16;
    std::string out;
    std::vector<char> block(kBlock);
    while (in.read(block.data(), std::streamsize(kBlock)) || in.gcount() > 0)
        out.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (in.bad()) return std::nullopt;
    return out;
}

}  // namespace piper
