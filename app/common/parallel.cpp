// SPDX-License-Identifier: Apache-2.0
#include "app/common/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace piper::app {

ParallelFor threadedFor() {
    return [](std::size_t n, const std::function<void(std::size_t)>& body) {
        const std::size_t threads =
            std::min<std::size_t>(n, std::max(1U, std::thread::hardware_concurrency()));
        if (threads <= 1) {
            for (std::size_t i = 0; i < n; ++i) body(i);
            return;
        }
        std::atomic<std::size_t> next{0};
        const auto work = [&] {
            for (std::size_t i = next++; i < n; i = next++) body(i);
        };
        std::vector<std::jthread> pool;
        for (std::size_t t = 1; t < threads; ++t) pool.emplace_back(work);
        work();
    };
}

}  // namespace piper::app
