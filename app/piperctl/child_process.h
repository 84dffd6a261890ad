// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/result.h"

namespace piper::app {

/// What a process took from its start to its end.
struct ProcessCost {
    double cpu_seconds = 0.0;  ///< user and system, all threads
    double wall_seconds = 0.0;
    std::int64_t peak_bytes = 0;  ///< resident
    int exit_status = 0;
};

/// Runs `work` in a process of its own, forked from this one. Errors: External when it died.
[[nodiscard]] Result<ProcessCost> costOf(const std::function<int()>& work);
/// The same of a program found in PATH, whose output goes nowhere. Errors: NotFound when it cannot
/// be started.
[[nodiscard]] Result<ProcessCost> costOf(const std::vector<std::string>& command);

/// A value that a child of costOf() leaves its parent.
template <class T>
class SharedWithChild {
public:
    /// Errors: External when there is no memory.
    [[nodiscard]] static Result<SharedWithChild> make() {
        static_assert(std::is_trivially_destructible_v<T>);
        void* place =
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED) return fail(ErrorCode::External, "no memory to share");
        SharedWithChild out;
        out.m_value.reset(new (place) T());
        return out;
    }
    T& operator*() const { return *m_value; }
    T* operator->() const { return m_value.get(); }

private:
    struct Unmap {
        void operator()(T* value) const { munmap(value, sizeof(T)); }
    };
    std::unique_ptr<T, Unmap> m_value;
};

/// CPU time of this process so far, user and system.
[[nodiscard]] double ownCpuSeconds();
/// Pages of memory this process has had to fetch so far, without those from a disk.
[[nodiscard]] std::int64_t ownPageFaults();

}  // namespace piper::app
