// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/base/result.h"

namespace piper {

/// How the ranks of a job know of each other's end without a message: each holds a lock on a small
/// file of the job directory and says in it what it is doing. The kernel gives the lock back when
/// the process ends, however it ends, so a rank whose lock is free but whose file does not say that
/// it left has died. Needs a job directory that the ranks share and that knows locks (local disks,
/// NFS from version 4); where a file cannot be read its rank counts as alive.
class Liveness {
public:
    enum class State : std::int32_t { Running = 1, Failed = 2, Stopping = 3, Done = 4 };

    /// What is known of another rank that is no more.
    struct Loss {
        RankId rank;
        bool killed = false;  ///< without a word
        std::string message;  ///< of a failed one; the last operation of a killed one
    };

    /// Makes and locks DIRECTORY/rank-N.alive. Errors: Io.
    [[nodiscard]] static Result<std::unique_ptr<Liveness>> join(
        const std::filesystem::path& directory, RankId rank, std::int64_t world);
    ~Liveness();
    Liveness(const Liveness&) = delete;
    Liveness& operator=(const Liveness&) = delete;

    /// What this rank is about to do, for the others' message should it die. A store into mapped
    /// memory: cheap enough for every operation.
    void note(std::string_view doing);
    void leave(State state, const std::string& message);
    /// The first other rank that was killed or failed.
    [[nodiscard]] std::optional<Loss> findLoss();
    /// Waits until every other rank has left or died, at most this long.
    void awaitOthers(std::int64_t milliseconds);
    /// True when no rank below this one is alive: who speaks for the job.
    [[nodiscard]] bool isLowestAlive();

    [[nodiscard]] static std::filesystem::path file(const std::filesystem::path& directory,
                                                    std::int64_t rank);
    /// Process id in a rank's file, 0 without one.
    [[nodiscard]] static std::int64_t processOf(const std::filesystem::path& directory,
                                                std::int64_t rank);

private:
    struct Page;
    struct Peer {
        int descriptor = -1;
        const Page* page = nullptr;
    };
    Liveness() = default;
    [[nodiscard]] bool open(Peer& peer, std::int64_t rank) const;
    [[nodiscard]] bool gone(const Peer& peer) const;

    std::filesystem::path m_directory;
    std::int64_t m_rank = 0;
    int m_descriptor = -1;
    Page* m_page = nullptr;
    std::vector<Peer> m_peers;  ///< [world], own entry unused
};

}  // namespace piper
