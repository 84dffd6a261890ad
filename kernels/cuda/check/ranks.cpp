// SPDX-License-Identifier: Apache-2.0
// Several ranks on one device, each a process, that write into each other's memory: an all-to-all
// of equal blocks, ordered by events of one process that another's stream waits for.
#include "kernels/cuda/check/ranks.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>

#include "kernels/cuda/check/isolate.h"
#include "kernels/cuda/check/timing.h"
#include "kernels/cuda/local_group.h"

namespace piper::cuda {
namespace {

constexpr int kRankSeconds = 25;

/// What a rank tells the others.
struct RankHandles {
    PiperCudaIpcMemory receive;
    unsigned char sent[PIPER_CUDA_IPC_BYTES];
    unsigned char read[PIPER_CUDA_IPC_BYTES];
};

class IpcExchange {
public:
    IpcExchange(const Device& device, LocalGroup& group, std::int64_t block_bytes)
        : m_device(device),
          m_group(group),
          m_block(block_bytes),
          m_send(device, group.ranks() * block_bytes),
          m_receive(device, group.ranks() * block_bytes) {
        RankHandles mine{};
        const PiperCudaApi& api = device.api();
        Peer self{m_receive.as<unsigned char>(), nullptr, nullptr, {}};
        call(api.exportMemory(device.context(), self.receive, &mine.receive), "exportMemory");
        call(api.createEvent(device.context(), &self.sent, mine.sent), "createEvent");
        call(api.createEvent(device.context(), &self.read, mine.read), "createEvent");
        std::vector<unsigned char> bytes(sizeof mine);
        std::memcpy(bytes.data(), &mine, sizeof mine);
        const auto all = group.exchange(bytes);
        for (int r = 0; r < group.ranks(); ++r) {
            m_peers.push_back(r == group.rank() ? self : open(all[static_cast<std::size_t>(r)]));
        }
    }
    IpcExchange(const IpcExchange&) = delete;
    IpcExchange& operator=(const IpcExchange&) = delete;

    [[nodiscard]] const DeviceMemory& sendBlocks() const { return m_send; }
    [[nodiscard]] const DeviceMemory& receivedBlocks() const { return m_receive; }

    /// Block r of the send buffer becomes this rank's block in rank r's receive buffer. On return
    /// this stream's next operations find all blocks.
    void exchange() {
        const PiperCudaApi& api = m_device.api();
        PiperCudaContext* context = m_device.context();
        for (int step = 0; step < m_group.ranks(); ++step) {
            const int to = (m_group.rank() + step) % m_group.ranks();  // not all to one at once
            const Peer& peer = m_peers[static_cast<std::size_t>(to)];
            if (m_begun) call(api.waitEvent(context, peer.read), "waitEvent");
            call(api.copyOnDevice(context, m_send.as<unsigned char>() + to * m_block,
                                  peer.receive + m_group.rank() * m_block, m_block),
                 "copyOnDevice");
        }
        call(api.recordEvent(context, me().sent), "recordEvent");
        m_group.barrier();  // an event is recorded before another stream may wait for it
        for (const Peer& peer : m_peers) call(api.waitEvent(context, peer.sent), "waitEvent");
    }
    /// The received blocks may be overwritten once this stream's operations so far are done.
    void release() {
        call(m_device.api().recordEvent(m_device.context(), me().read), "recordEvent");
        m_begun = true;
        m_group.barrier();
    }

    /// Gives back what was imported; after it nobody uses another's memory.
    void close() {
        const PiperCudaApi& api = m_device.api();
        PiperCudaContext* context = m_device.context();
        call(api.synchronize(context), "synchronize");
        for (std::size_t r = 0; r < m_peers.size(); ++r) {
            const Peer& peer = m_peers[r];
            if (static_cast<int>(r) != m_group.rank()) {
                call(api.closeMemory(context, &peer.handle, peer.receive), "closeMemory");
            }
            call(api.destroyEvent(context, peer.sent), "destroyEvent");
            call(api.destroyEvent(context, peer.read), "destroyEvent");
        }
        m_peers.clear();
        m_group.barrier();
    }

private:
    struct Peer {
        unsigned char* receive;
        PiperCudaEvent* sent;
        PiperCudaEvent* read;
        PiperCudaIpcMemory handle;
    };

    void call(int status, const char* what) const { m_device.require(status, what); }
    [[nodiscard]] const Peer& me() const {
        return m_peers[static_cast<std::size_t>(m_group.rank())];
    }
    [[nodiscard]] Peer open(const std::vector<unsigned char>& bytes) const {
        RankHandles handles{};
        std::memcpy(&handles, bytes.data(), sizeof handles);
        Peer peer{nullptr, nullptr, nullptr, handles.receive};
        void* memory = nullptr;
        const PiperCudaApi& api = m_device.api();
        PiperCudaContext* context = m_device.context();
        call(api.importMemory(context, &handles.receive, &memory), "importMemory");
        call(api.importEvent(context, handles.sent, &peer.sent), "importEvent");
        call(api.importEvent(context, handles.read, &peer.read), "importEvent");
        peer.receive = static_cast<unsigned char*>(memory);
        return peer;
    }

    const Device& m_device;
    LocalGroup& m_group;
    std::int64_t m_block;
    DeviceMemory m_send, m_receive;
    std::vector<Peer> m_peers;
    bool m_begun = false;
};

std::int32_t valueOf(int round, int from, int to, std::size_t index) {
    return static_cast<std::int32_t>(index * 2654435761U) ^ (round << 16 | from << 8 | to);
}

/// Values that are not what the sender wrote, over three rounds.
std::int64_t wrongValues(const Device& device, LocalGroup& group) {
    constexpr std::size_t kBlock = 100003;  // values; blocks begin off the alignment
    const auto ranks = static_cast<std::size_t>(group.ranks());
    IpcExchange exchange(device, group, kBlock * 4);
    std::int64_t wrong = 0;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::int32_t> sent(ranks * kBlock);
        for (std::size_t i = 0; i < sent.size(); ++i) {
            sent[i] = valueOf(round, group.rank(), static_cast<int>(i / kBlock), i % kBlock);
        }
        exchange.sendBlocks().write(sent);
        exchange.exchange();
        const auto received =
            exchange.receivedBlocks().read<std::int32_t>(static_cast<std::int64_t>(ranks * kBlock));
        for (std::size_t i = 0; i < received.size(); ++i) {
            const auto from = static_cast<int>(i / kBlock);
            if (received[i] != valueOf(round, from, group.rank(), i % kBlock)) ++wrong;
        }
        exchange.release();
    }
    exchange.close();
    return wrong;
}

void timeExchange(const Device& device, LocalGroup& group) {
    constexpr std::int64_t kBytes = std::int64_t{1} << 26U;
    constexpr int kRounds = 15;
    IpcExchange exchange(device, group, kBytes / group.ranks());
    std::vector<double> seconds;
    for (int round = 0; round <= kRounds; ++round) {
        group.barrier();
        const auto begin = std::chrono::steady_clock::now();
        exchange.exchange();
        device.require(device.api().synchronize(device.context()), "synchronize");
        exchange.release();
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
        if (round > 0) seconds.push_back(passed.count());
    }
    exchange.close();
    if (group.rank() != 0) return;
    const Spread spread = spreadOf(seconds);
    std::printf("all-to-all over IPC, %d ranks on one device, 64 MiB a rank (n %d)\n",
                group.ranks(), kRounds);
    std::printf("  %-22s %10.1f us  +-%4.1f %%  %8.1f GB/s read and written by all\n",
                "exchange and wait", spread.median * 1e6,
                50.0 * (spread.p90 - spread.p10) / spread.median,
                2.0 * double(kBytes) * group.ranks() / spread.median * 1e-9);
}

/// Output of rank 0; a rank that fails is a DeviceError with its first line.
std::string spawnRanks(const Device& device, int ranks, bool timed) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string file = (std::filesystem::temp_directory_path() / "piper-ranks-XXXXXX").string();
    const int descriptor = mkstemp(file.data());
    if (descriptor < 0) throw DeviceError(file + ": " + std::strerror(errno));
    close(descriptor);
    std::vector<std::future<Ending>> running;
    for (int r = 0; r < ranks; ++r) {
        std::vector<std::string> command = {
            program,           "--device", std::to_string(device.number()),
            "--group",         file,       "--rank",
            std::to_string(r), "--ranks",  std::to_string(ranks)};
        if (timed) command.push_back("--time");
        running.push_back(std::async(std::launch::async, [command = std::move(command)] {
            return runIsolated(command, kRankSeconds);
        }));
    }
    std::string output;
    std::string fault;
    for (int r = 0; r < ranks; ++r) {
        const Ending ending = running[static_cast<std::size_t>(r)].get();
        if (r == 0) output = ending.output;
        if (!ending.clean() && fault.empty()) {
            fault = "rank " + std::to_string(r) + ": " + ending.fault(kRankSeconds) + ", " +
                    ending.output.substr(0, ending.output.find('\n'));
        }
    }
    std::filesystem::remove(file);
    if (!fault.empty()) throw DeviceError(fault);
    return output;
}

}  // namespace

void runRank(const Device& device, const RankOptions& options) {
    try {
        LocalGroup group(options.group_file, options.rank, options.ranks);
        try {
            if (options.timed) {
                timeExchange(device, group);
                return;
            }
            const std::int64_t wrong = wrongValues(device, group);
            std::printf("%lld\n", static_cast<long long>(wrong));
            if (wrong != 0) throw DeviceError("values that their sender did not write");
        } catch (...) {
            group.fail();
            throw;
        }
    } catch (const DeviceError&) {
        throw;
    } catch (const std::runtime_error& error) {
        throw DeviceError(error.what());
    }
}

void addRankCases(std::vector<CorrectnessCase>& cases) {
    for (const int ranks : {1, 2, 4}) {
        cases.push_back({"all-to-all over IPC, " + std::to_string(ranks) + " ranks on one device",
                         [ranks](const Device& device) {
                             (void)spawnRanks(device, ranks, false);
                             return Correctness{};
                         }});
    }
}

void addRankTimings(std::vector<TimingCase>& cases) {
    cases.push_back({"ranks",
                     [](const Device& device) {
                         for (const int ranks : {2, 4}) {
                             std::fputs(spawnRanks(device, ranks, true).c_str(), stdout);
                         }
                     },
                     {"all-to-all"}});
}

}  // namespace piper::cuda
