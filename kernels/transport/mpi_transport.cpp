// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/mpi_transport.h"

#include <cstdlib>
#include <cstring>

#include "kernels/transport/mpi_communicator.h"
#include "kernels/transport/node_map.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace piper {
namespace {

constexpr std::size_t kLabelBytes = 256;

/// What each rank tells the others, as fixed-size bytes.
struct HintMessage {
    char label[kLabelBytes] = {};
    std::int64_t local_rank = -1, local_size = -1;
};

Result<NodeHint> ownHint(std::int64_t rank) {
    char host[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(host, &length);
    return readNodeHint(rank, host, [](const char* name) { return std::getenv(name); });
}

Result<std::vector<std::int64_t>> worldNodes(std::int64_t rank, std::int64_t size) {
    PIPER_ASSIGN(const NodeHint own, ownHint(rank));
    HintMessage message;
    std::strncpy(message.label, own.label.c_str(), kLabelBytes - 1);
    message.local_rank = own.local_rank;
    message.local_size = own.local_size;
    std::vector<HintMessage> all(static_cast<std::size_t>(size));
    MPI_Allgather(&message, sizeof message, MPI_BYTE, all.data(), sizeof message, MPI_BYTE,
                  MPI_COMM_WORLD);
    std::vector<NodeHint> hints;
    for (const HintMessage& m : all) hints.push_back({m.label, m.local_rank, m.local_size});
    return nodeIndices(hints);
}

/// Finalizing unloads MPI's modules, and what they leak has no name any more: leaks are looked for
/// before, while those of others can be told from ours.
void checkLeaks() {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_do_leak_check();
#endif
}

class MpiTransport final : public Transport {
public:
    MpiTransport(std::shared_ptr<const MpiOptions> options, std::vector<std::int64_t> nodes,
                 bool ends_mpi)
        : m_options(std::move(options)),
          m_ends_mpi(ends_mpi),
          m_world(duplicatedWorld(), std::move(nodes), m_options) {}
    ~MpiTransport() override {
        // After an interruption others may be gone: finalizing would wait for them for ever.
        if (m_options->interrupted && m_options->interrupted()) return;
        m_world.release();
        if (!m_ends_mpi) return;
        checkLeaks();
        MPI_Finalize();
    }

    [[nodiscard]] std::string_view name() const override { return "mpi"; }
    [[nodiscard]] Communicator& world() override { return m_world; }

    Result<std::unique_ptr<Communicator>> makeGroup(const std::vector<RankId>& members) override {
        std::vector<int> ranks;
        std::vector<std::int64_t> nodes;
        for (const RankId member : members) {
            if (!member.valid() || member.value >= m_world.size())
                return fail(ErrorCode::InvalidInput, "rank {} is not in a world of {}",
                            member.value, m_world.size());
            ranks.push_back(member.value);
            nodes.push_back(m_world.nodes()[member.index()]);
        }
        MPI_Group world_group = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &world_group);
        MPI_Group_incl(world_group, static_cast<int>(ranks.size()), ranks.data(), &group);
        const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, m_next_tag++, &comm);
        MPI_Group_free(&group);
        MPI_Group_free(&world_group);
        PIPER_TRY(mpiStatus(code, "making a group"));
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        return std::unique_ptr<Communicator>(
            std::make_unique<MpiCommunicator>(comm, std::move(nodes), m_options));
    }

    [[noreturn]] void abort(int exit_status) override {
        MPI_Abort(MPI_COMM_WORLD, exit_status);
        std::_Exit(exit_status);
    }

private:
    static MPI_Comm duplicatedWorld() {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        return comm;
    }

    std::shared_ptr<const MpiOptions> m_options;
    bool m_ends_mpi;
    MpiCommunicator m_world;
    int m_next_tag = 1;
};

}  // namespace

bool mpiRuns() {
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started != 0 && ended == 0;
}

Result<std::unique_ptr<Transport>> makeMpiTransport(MpiOptions options) {
    const bool runs = mpiRuns();  // then it is the program's, and stays as it is
    if (!runs) {
        // Ranks may outnumber cores; a value the user set stays.
        ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
        int provided = 0;
        PIPER_TRY(mpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
                            "starting MPI"));
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    PIPER_ASSIGN(std::vector<std::int64_t> nodes, worldNodes(rank, size));
    return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(
        std::make_shared<const MpiOptions>(std::move(options)), std::move(nodes), !runs));
}

}  // namespace piper
