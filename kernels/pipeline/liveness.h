// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/index.h"
#include "core/base/result.h"

namespace piper {

/// How long is too long, in beats of the rank that is judged and in looks of the one that
/// judges (a machine that sleeps makes neither).
struct LivenessPatience {
    std::int64_t beat_ms = 250;
    std::int64_t looks_without_beat = 24;  ///< findLoss calls, at least a beat apart
    std::int64_t beats_idle = 28;          ///< neither computing nor going on nor waiting
    std::int64_t beats_busy = 240;         ///< at one operation, or 20 times the longest before
};

/// How the ranks of a job know of each other's end without a message: each holds a lock on a small
/// file of the job directory and says in it what it is doing. The kernel gives the lock back when
/// the process ends, however it ends, so a rank whose lock is free but whose file does not say that
/// it left has died. A thread of each rank beats in its file: one whose file stands still is frozen
/// (stopped, or its machine is). The same thread watches the one that trains: one that neither goes
/// on nor waits for others nor computes for seconds hangs, and so does one that computes at a
/// single operation far longer than at any before. Needs a job directory that the ranks share and
/// that knows locks (local disks, NFS from version 4); where a file cannot be read its rank counts
/// as alive.
class Liveness {
public:
    enum class State : std::int32_t { Running = 1, Failed = 2, Stopping = 3, Done = 4 };

    /// What is known of another rank that is no more.
    struct Loss {
        RankId rank;
        bool killed = false;  ///< without a word
        bool hangs = false;   ///< alive, and stands still
        std::string message;  ///< of a failed one; the last operation of another
    };

    using Patience = LivenessPatience;

    /// Makes and locks DIRECTORY/rank-N.alive, and watches the calling thread. Errors: Io.
    [[nodiscard]] static Result<std::unique_ptr<Liveness>> join(
        const std::filesystem::path& directory, RankId rank, std::int64_t world,
        Patience patience = {});
    ~Liveness();
    Liveness(const Liveness&) = delete;
    Liveness& operator=(const Liveness&) = delete;

    /// What this rank is about to do, for the others' message should it die. A store into mapped
    /// memory: cheap enough for every operation.
    void note(std::string_view doing);
    /// This rank waits for others: a sign that it does not hang itself.
    void waits();
    void leave(State state, const std::string& message);
    /// The first other rank that was killed, failed or hangs.
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
        std::int64_t beats = -1, looks = 0;  ///< last seen, and looks since it changed
    };
    Liveness() = default;
    [[nodiscard]] bool open(Peer& peer, std::int64_t rank) const;
    [[nodiscard]] bool gone(const Peer& peer) const;
    [[nodiscard]] bool hangs(Peer& peer) const;
    void beat(int thread_id);

    std::filesystem::path m_directory;
    std::int64_t m_rank = 0;
    int m_descriptor = -1;
    Page* m_page = nullptr;
    Patience m_patience;
    std::vector<Peer> m_peers;  ///< [world], own entry unused
    std::atomic<bool> m_ends = false;
    std::thread m_heart;
};

}  // namespace piper
