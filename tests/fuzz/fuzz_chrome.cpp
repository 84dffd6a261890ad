// SPDX-License-Identifier: Apache-2.0
// Chrome and Kineto JSON, plain or gzip.
#include <cstdlib>

#include "collectors/import/imported.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto run = piper::importChrome(piper::fuzz::inputFile(data, size));
    if (!run.ok()) return 0;
    for (const piper::RankTimeline& rank : run->run.ranks)
        for (const piper::Event& e : rank.events)
            // Sums of times are safe for whoever reads them.
            if (e.end_ns() < e.start_ns && e.duration_ns >= 0) std::abort();
    return 0;
}
