// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/mpi_communicator.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/transport/payload.h"

namespace piper {
namespace {

constexpr std::size_t kMaxCount = std::numeric_limits<int>::max();
/// Elements of one reduction call; longer buffers go in slices.
constexpr std::size_t kReduceSlice = std::size_t{1} << 28;
/// Sums of more elements are exchanged and added up here, as many at a time as stay in a cache.
constexpr std::size_t kSmallReduction = std::size_t{1} << 16;
constexpr std::size_t kOrderedSlice = std::size_t{1} << 20;

/// Yields for some milliseconds, which leaves the processor to a rank that has work; then sleeps,
/// at most 100 microseconds: large messages advance only when somebody looks.
void pauseForOthers(std::int64_t round) {
    constexpr std::int64_t kYields = 4096;
    if (round < kYields) {
        ::sched_yield();
        return;
    }
    const long ns = std::min<long>(100'000, 1'000L * (static_cast<long>(round - kYields) + 10));
    const timespec interval{0, ns};
    ::nanosleep(&interval, nullptr);
}

Status checkInterruption(const MpiOptions& options, const char* doing) {
    if (!options.interrupted) return {};
    if (std::optional<Error> error = options.interrupted())
        return std::move(*error).withContext(doing);
    return {};
}

Status waitFor(MPI_Request& request, const MpiOptions& options, const char* doing) {
#if defined(PIPER_SIMULATED)
    (void)options;
    return mpiStatus(MPI_Wait(&request, MPI_STATUS_IGNORE), doing);
#endif
    for (std::int64_t round = 0;; ++round) {
        int done = 0;
        PIPER_TRY(mpiStatus(MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing));
        if (done != 0) return {};
        PIPER_TRY(checkInterruption(options, doing));
        pauseForOthers(round);
    }
}

class MpiTransfer final : public PendingTransfer {
public:
    MpiTransfer(MPI_Request request, std::shared_ptr<const MpiOptions> options, const char* doing)
        : m_request(request), m_options(std::move(options)), m_doing(doing) {}
    ~MpiTransfer() override { (void)wait(); }
    MpiTransfer(const MpiTransfer&) = delete;
    MpiTransfer& operator=(const MpiTransfer&) = delete;

    [[nodiscard]] bool test() override {
        if (m_request == MPI_REQUEST_NULL) return true;
#if defined(PIPER_SIMULATED)
        return false;  // pause() waits; a test that fails would let simulated time pass
#else
        int done = 0;
        m_status = mpiStatus(MPI_Test(&m_request, &done, MPI_STATUS_IGNORE), m_doing);
        return done != 0 || !m_status.ok();
#endif
    }
    Status wait() override {
        if (m_request == MPI_REQUEST_NULL || !m_status.ok()) return m_status;
        return waitFor(m_request, *m_options, m_doing);
    }

    /// MPI_REQUEST_NULL once it is done.
    [[nodiscard]] MPI_Request& request() {
        return m_request;
    }

private:
    MPI_Request m_request;
    std::shared_ptr<const MpiOptions> m_options;
    const char* m_doing;
    Status m_status;
};

Result<MpiBlocks> intCounts(std::span<const std::int64_t> bytes, std::size_t buffer) {
    MpiBlocks out;
    std::int64_t sum = 0;
    for (const std::int64_t count : bytes) {
        if (count < 0 || static_cast<std::size_t>(sum + count) > std::min(kMaxCount, buffer))
            return fail(ErrorCode::InvalidInput,
                        "all-to-all count {} after {} bytes does not fit a buffer of {} bytes",
                        count, sum, buffer);
        out.counts.push_back(static_cast<int>(count));
        out.offsets.push_back(static_cast<int>(sum));
        sum += count;
    }
    return out;
}

std::int64_t signedSize(std::size_t n) {
    return static_cast<std::int64_t>(n);
}

}  // namespace

Status mpiStatus(int code, const char* doing) {
    if (code == MPI_SUCCESS) return {};
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return fail(ErrorCode::External, "MPI: {}", text).withContext(doing);
}

MpiCommunicator::MpiCommunicator(MPI_Comm comm, std::vector<std::int64_t> nodes,
                                 std::shared_ptr<const MpiOptions> options)
    : m_comm(comm), m_nodes(std::move(nodes)), m_options(std::move(options)) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    m_rank = rank;
    m_size = size;
}

MpiCommunicator::~MpiCommunicator() {
    release();
}

void MpiCommunicator::release() {
    const bool interrupted = m_options->interrupted && m_options->interrupted();
    if (m_comm != MPI_COMM_NULL && !interrupted) MPI_Comm_free(&m_comm);
    m_comm = MPI_COMM_NULL;
}

Status MpiCommunicator::wait(MPI_Request& request, const char* doing) const {
    return waitFor(request, *m_options, doing);
}

void MpiCommunicator::count(std::int64_t sent, std::int64_t received, std::int64_t messages) {
    if (m_size == 1) return;
    m_counters.bytes_sent += sent;
    m_counters.bytes_received += received;
    m_counters.messages_sent += messages;
}

bool MpiCommunicator::otherNode(std::int64_t peer) const {
    return m_nodes[static_cast<std::size_t>(peer)] != m_nodes[static_cast<std::size_t>(m_rank)];
}

void MpiCommunicator::countSent(std::int64_t to, std::int64_t bytes) {
    if (to == m_rank) return;
    count(bytes, 0, 1);
    if (!otherNode(to)) return;
    m_counters.inter_node_bytes += bytes;
    ++m_counters.inter_node_messages;
}

void MpiCommunicator::countReceived(std::int64_t from, std::int64_t bytes) {
    if (from == m_rank) return;
    count(0, bytes, 0);
    if (otherNode(from)) m_counters.inter_node_bytes_received += bytes;
}

void MpiCommunicator::countBlocks(std::span<const std::int64_t> send_bytes,
                                  std::span<const std::int64_t> recv_bytes) {
    for (std::int64_t peer = 0; peer < m_size; ++peer) {
        const auto i = static_cast<std::size_t>(peer);
        if (send_bytes[i] > 0) countSent(peer, send_bytes[i]);
        countReceived(peer, recv_bytes[i]);
    }
}

#if defined(PIPER_SIMULATED)
// Ranks that poll would each cost the simulator an event a test: it is told what they wait for.
Status MpiCommunicator::pause(std::int64_t, std::span<PendingTransfer* const> transfers) {
    std::vector<MPI_Request> requests;
    for (PendingTransfer* transfer : transfers)
        requests.push_back(static_cast<MpiTransfer*>(transfer)->request());
    int index = MPI_UNDEFINED;
    PIPER_TRY(mpiStatus(
        MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE),
        "exchanging"));
    if (index == MPI_UNDEFINED) return {};
    const auto done = static_cast<std::size_t>(index);
    static_cast<MpiTransfer*>(transfers[done])->request() = MPI_REQUEST_NULL;
    return {};
}

void MpiCommunicator::copied(std::int64_t bytes) {
    if (bytes > 0) smpi_execute(static_cast<double>(bytes) / PIPER_SIMULATED_COPY_RATE);
}
#else
Status MpiCommunicator::pause(std::int64_t round, std::span<PendingTransfer* const>) {
    PIPER_TRY(checkInterruption(*m_options, "exchanging"));
    pauseForOthers(round);
    return {};
}
#endif

Status MpiCommunicator::checkPeer(std::int64_t peer, std::size_t bytes) const {
    if (peer < 0 || peer >= m_size)
        return fail(ErrorCode::InvalidInput, "peer {} is not in a group of {} ranks", peer, m_size);
    if (bytes > kMaxCount)
        return fail(ErrorCode::InvalidInput, "a message of {} bytes is above MPI's {} bytes", bytes,
                    kMaxCount);
    return {};
}

Status MpiCommunicator::checkGroupSize(std::size_t sent, std::size_t received) const {
    if (signedSize(sent) == m_size && signedSize(received) == m_size) return {};
    return fail(ErrorCode::InvalidInput, "all-to-all with {} and {} counts in a group of {}", sent,
                received, m_size);
}

Result<std::unique_ptr<PendingTransfer>> MpiCommunicator::send(std::span<const std::byte> data,
                                                               std::int64_t to, int tag) {
    PIPER_TRY(checkPeer(to, data.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE,
                                  static_cast<int>(to), tag, m_comm, &request),
                        "sending"));
    countSent(to, signedSize(data.size()));
    return std::unique_ptr<PendingTransfer>(
        std::make_unique<MpiTransfer>(request, m_options, "sending"));
}

Result<std::unique_ptr<PendingTransfer>> MpiCommunicator::receive(std::span<std::byte> data,
                                                                  std::int64_t from, int tag) {
    PIPER_TRY(checkPeer(from, data.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE,
                                  static_cast<int>(from), tag, m_comm, &request),
                        "receiving"));
    countReceived(from, signedSize(data.size()));
    return std::unique_ptr<PendingTransfer>(
        std::make_unique<MpiTransfer>(request, m_options, "receiving"));
}

Status MpiCommunicator::allToAllV(std::span<const std::byte> send,
                                  std::span<const std::int64_t> send_bytes,
                                  std::span<std::byte> recv,
                                  std::span<const std::int64_t> recv_bytes) {
    PIPER_TRY(checkGroupSize(send_bytes.size(), recv_bytes.size()));
    PIPER_ASSIGN(const MpiBlocks out, intCounts(send_bytes, send.size()));
    PIPER_ASSIGN(const MpiBlocks in, intCounts(recv_bytes, recv.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(
        MPI_Ialltoallv(send.data(), out.counts.data(), out.offsets.data(), MPI_BYTE, recv.data(),
                       in.counts.data(), in.offsets.data(), MPI_BYTE, m_comm, &request),
        "all-to-all"));
    countBlocks(send_bytes, recv_bytes);
    return wait(request, "all-to-all");
}

Status MpiCommunicator::blockingAllToAllV(std::span<const std::byte> send,
                                          std::span<const std::int64_t> send_bytes,
                                          std::span<std::byte> recv,
                                          std::span<const std::int64_t> recv_bytes) {
    PIPER_TRY(checkGroupSize(send_bytes.size(), recv_bytes.size()));
    PIPER_ASSIGN(const MpiBlocks out, intCounts(send_bytes, send.size()));
    PIPER_ASSIGN(const MpiBlocks in, intCounts(recv_bytes, recv.size()));
    countBlocks(send_bytes, recv_bytes);
    return mpiStatus(
        MPI_Alltoallv(send.data(), out.counts.data(), out.offsets.data(), MPI_BYTE, recv.data(),
                      in.counts.data(), in.offsets.data(), MPI_BYTE, m_comm),
        "all-to-all");
}

template <class T>
Status MpiCommunicator::sumBlocks(const T* values, const MpiBlocks& blocks, MPI_Datatype type,
                                  std::span<T> out, const char* doing) {
    const auto n = static_cast<std::size_t>(m_size);
    const std::vector<int> counts(n, static_cast<int>(out.size()));
    std::vector<int> offsets(n);
    for (std::size_t r = 0; r < n; ++r) offsets[r] = static_cast<int>(r * out.size());
    std::vector<T> parts(n * out.size());
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(
        MPI_Ialltoallv(values, blocks.counts.data(), blocks.offsets.data(), type, parts.data(),
                       counts.data(), offsets.data(), type, m_comm, &request),
        doing));
    PIPER_TRY(wait(request, doing));
    std::copy_n(parts.begin(), out.size(), out.begin());
    for (std::size_t r = 1; r < n; ++r)
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += parts[r * out.size() + i];
    return {};
}

template <class T>
Status MpiCommunicator::reduceInRankOrder(std::span<T> values, MPI_Datatype type) {
    const auto n = static_cast<std::size_t>(m_size), own = static_cast<std::size_t>(m_rank);
    MpiBlocks blocks{std::vector<int>(n), std::vector<int>(n)};
    for (std::size_t r = 0; r < n; ++r) {
        blocks.offsets[r] = static_cast<int>(values.size() * r / n);
        blocks.counts[r] = static_cast<int>(values.size() * (r + 1) / n) - blocks.offsets[r];
    }
    std::vector<T> sum(static_cast<std::size_t>(blocks.counts[own]));
    PIPER_TRY(sumBlocks(values.data(), blocks, type, std::span<T>(sum), "all-reduce"));
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(
        MPI_Iallgatherv(sum.data(), blocks.counts[own], type, values.data(), blocks.counts.data(),
                        blocks.offsets.data(), type, m_comm, &request),
        "all-reduce"));
    return wait(request, "all-reduce");
}

template <class T>
Status MpiCommunicator::reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation) {
    const std::int64_t payload = allReducePayload(m_size, signedSize(values.size_bytes()));
    count(payload, payload, 2 * (m_size - 1));
    const bool in_order =
        operation == MPI_SUM && (m_options->deterministic || values.size() >= kSmallReduction);
    const std::size_t most = in_order ? kOrderedSlice : kReduceSlice;
    for (std::size_t begin = 0; begin < values.size(); begin += most) {
        const std::span<T> slice = values.subspan(begin, std::min(most, values.size() - begin));
        if (in_order) {
            PIPER_TRY(reduceInRankOrder(slice, type));
            continue;
        }
        MPI_Request request = MPI_REQUEST_NULL;
        PIPER_TRY(
            mpiStatus(MPI_Iallreduce(MPI_IN_PLACE, slice.data(), static_cast<int>(slice.size()),
                                     type, operation, m_comm, &request),
                      "all-reduce"));
        PIPER_TRY(wait(request, "all-reduce"));
    }
    return {};
}

Status MpiCommunicator::allReduceSum(std::span<float> values) {
    return reduce(values, MPI_FLOAT, MPI_SUM);
}
Status MpiCommunicator::allReduceSum(std::span<double> values) {
    return reduce(values, MPI_DOUBLE, MPI_SUM);
}
Status MpiCommunicator::allReduceMax(std::span<double> values) {
    return reduce(values, MPI_DOUBLE, MPI_MAX);
}

Status MpiCommunicator::allGather(std::span<const std::byte> send, std::span<std::byte> recv) {
    const std::int64_t bytes = signedSize(send.size());
    if (signedSize(recv.size()) != bytes * m_size || send.size() > kMaxCount)
        return fail(ErrorCode::InvalidInput,
                    "all-gather of {} bytes from {} ranks into a buffer of {}", bytes, m_size,
                    recv.size());
    MPI_Request request = MPI_REQUEST_NULL;
    const int n = static_cast<int>(bytes);
    PIPER_TRY(mpiStatus(
        MPI_Iallgather(send.data(), n, MPI_BYTE, recv.data(), n, MPI_BYTE, m_comm, &request),
        "all-gather"));
    const std::int64_t payload = allGatherPayload(m_size, bytes);
    count(payload, payload, m_size - 1);
    return wait(request, "all-gather");
}

/// MpiBlocks are exchanged and added up here: Open MPI 4's nonblocking reduce-scatter gathers
/// everything on one rank first.
Status MpiCommunicator::reduceScatterSum(std::span<const float> values, std::span<float> out) {
    const auto n = static_cast<std::size_t>(m_size);
    if (values.size() != out.size() * n || values.size() > kMaxCount)
        return fail(ErrorCode::InvalidInput, "reduce-scatter of {} values to {} on {} ranks",
                    values.size(), out.size(), m_size);
    const std::int64_t payload = reduceScatterPayload(m_size, signedSize(out.size_bytes()));
    count(payload, payload, m_size - 1);
    const std::size_t most = kOrderedSlice / n + 1;
    for (std::size_t begin = 0; begin < out.size(); begin += most) {
        const std::span<float> sum = out.subspan(begin, std::min(most, out.size() - begin));
        MpiBlocks blocks{std::vector<int>(n, static_cast<int>(sum.size())), std::vector<int>(n)};
        for (std::size_t r = 0; r < n; ++r)
            blocks.offsets[r] = static_cast<int>(r * out.size() + begin);
        PIPER_TRY(sumBlocks(values.data(), blocks, MPI_FLOAT, sum, "reduce-scatter"));
    }
    return {};
}

Status MpiCommunicator::broadcast(std::span<std::byte> data, std::int64_t root) {
    PIPER_TRY(checkPeer(root, data.size()));
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(MPI_Ibcast(data.data(), static_cast<int>(data.size()), MPI_BYTE,
                                   static_cast<int>(root), m_comm, &request),
                        "broadcast"));
    const std::int64_t bytes = signedSize(data.size());
    if (root == m_rank)
        count(broadcastPayload(m_size, bytes), 0, m_size - 1);
    else
        count(0, bytes, 0);
    return wait(request, "broadcast");
}

Status MpiCommunicator::barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    PIPER_TRY(mpiStatus(MPI_Ibarrier(m_comm, &request), "barrier"));
    return wait(request, "barrier");
}

}  // namespace piper
