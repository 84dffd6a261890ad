// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/liveness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace piper {

/// The file's content. Written by its owner, read by others at any moment: the text may be torn,
/// never unterminated.
struct Liveness::Page {
    static constexpr std::size_t kText = 240;
    std::int64_t process = 0;
    State state = State::Running;
    std::int32_t reserved = 0;
    std::atomic<std::int64_t> beats;     ///< of the heart
    std::atomic<std::int64_t> progress;  ///< notes and waits of the training thread
    std::atomic<std::int64_t> idle;      ///< beats in a row that saw it stand still
    std::atomic<std::int64_t> busy;      ///< beats in a row that saw it compute at one operation
    std::atomic<std::int64_t> longest;   ///< most of those that ended
    char text[kText + 1] = {};
};

namespace {

struct flock wholeFile(short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

Error systemError(const std::filesystem::path& path, const char* doing) {
    return fail(ErrorCode::Io, "{} failed: {}", doing, std::strerror(errno)).at(path.string());
}

/// True when a thread of this process sleeps in the kernel or is stopped, rather than computing,
/// waiting for a processor or, at state D, for a disk: a slow one is no hang until far later.
bool sleeps(int thread_id) {
    char path[64], text[512];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread_id);
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t n = ::read(file, text, sizeof text - 1);
    ::close(file);
    if (n <= 0) return false;
    text[n] = '\0';
    // "id (name) S ...": the name may hold anything, so the last parenthesis counts.
    const char* end = std::strrchr(text, ')');
    return end != nullptr && end[1] == ' ' && end[2] != 'R' && end[2] != 'D';
}

}  // namespace

std::filesystem::path Liveness::file(const std::filesystem::path& directory, std::int64_t rank) {
    return directory / fmt::format("rank-{}.alive", rank);
}

Result<std::unique_ptr<Liveness>> Liveness::join(const std::filesystem::path& directory,
                                                 RankId rank, std::int64_t world,
                                                 Patience patience) {
    std::unique_ptr<Liveness> self(new Liveness);
    self->m_directory = directory;
    self->m_rank = rank.value;
    self->m_patience = patience;
    self->m_peers.resize(static_cast<std::size_t>(world));
    const std::filesystem::path path = file(directory, rank.value);
    // A file left by an earlier attempt may still be mapped by somebody: take a new one.
    ::unlink(path.c_str());
    self->m_descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (self->m_descriptor < 0) return systemError(path, "open");
    struct flock lock = wholeFile(F_WRLCK);
    if (::fcntl(self->m_descriptor, F_OFD_SETLK, &lock) != 0) return systemError(path, "lock");
    if (::ftruncate(self->m_descriptor, sizeof(Page)) != 0) return systemError(path, "ftruncate");
    void* page =
        ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, self->m_descriptor, 0);
    if (page == MAP_FAILED) return systemError(path, "mmap");
    self->m_page = static_cast<Page*>(page);
    self->m_page->state = State::Running;
    self->note("starting");
    self->m_page->process = ::getpid();
    self->m_heart = std::thread(&Liveness::beat, self.get(), static_cast<int>(::gettid()));
    return self;
}

void Liveness::beat(int thread_id) {
    const timespec pause{m_patience.beat_ms / 1000, m_patience.beat_ms % 1000 * 1'000'000};
    std::int64_t seen = m_page->progress;
    while (!m_ends) {
        ::nanosleep(&pause, nullptr);
        const std::int64_t progress = m_page->progress;
        if (progress != seen) {
            m_page->longest = std::max<std::int64_t>(m_page->longest, m_page->busy);
            m_page->idle = m_page->busy = 0;
            seen = progress;
        } else if (sleeps(thread_id)) {
            ++m_page->idle;
        } else {
            m_page->idle = 0;
            ++m_page->busy;
        }
        ++m_page->beats;
    }
}

Liveness::~Liveness() {
    m_ends = true;
    if (m_heart.joinable()) m_heart.join();
    for (const Peer& peer : m_peers) {
        if (peer.page != nullptr) ::munmap(const_cast<Page*>(peer.page), sizeof(Page));
        if (peer.descriptor >= 0) ::close(peer.descriptor);
    }
    if (m_page != nullptr) ::munmap(m_page, sizeof(Page));
    if (m_descriptor >= 0) ::close(m_descriptor);
}

void Liveness::note(std::string_view doing) {
    const std::size_t n = std::min(doing.size(), Page::kText);
    std::memcpy(m_page->text, doing.data(), n);
    m_page->text[n] = '\0';
    ++m_page->progress;
}

void Liveness::waits() {
    ++m_page->progress;
}

void Liveness::leave(State state, const std::string& message) {
    if (!message.empty()) note(message);
    m_page->state = state;
}

bool Liveness::open(Peer& peer, std::int64_t rank) const {
    if (peer.page != nullptr) return true;
    const int descriptor = ::open(file(m_directory, rank).c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return false;
    void* page = ::mmap(nullptr, sizeof(Page), PROT_READ, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED || ::lseek(descriptor, 0, SEEK_END) < off_t{sizeof(Page)}) {
        if (page != MAP_FAILED) ::munmap(page, sizeof(Page));
        ::close(descriptor);
        return false;
    }
    peer.descriptor = descriptor;
    peer.page = static_cast<const Page*>(page);
    return true;
}

bool Liveness::gone(const Peer& peer) const {
    struct flock lock = wholeFile(F_WRLCK);
    return ::fcntl(peer.descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

bool Liveness::hangs(Peer& peer) const {
    const std::int64_t beats = peer.page->beats;
    if (beats != peer.beats) {
        peer.beats = beats;
        peer.looks = 0;
    }
    if (++peer.looks > m_patience.looks_without_beat) return true;
    const std::int64_t longest = peer.page->longest;
    return peer.page->idle > m_patience.beats_idle ||
           peer.page->busy > std::max(m_patience.beats_busy, 20 * longest);
}

std::optional<Liveness::Loss> Liveness::findLoss() {
    for (std::size_t rank = 0; rank < m_peers.size(); ++rank) {
        if (rank == static_cast<std::size_t>(m_rank)) continue;
        Peer& peer = m_peers[rank];
        if (!open(peer, static_cast<std::int64_t>(rank)) || peer.page->process == 0) continue;
        const bool is_gone = gone(peer);
        const State state = peer.page->state;
        if (state == State::Failed) return Loss{RankId(rank), false, false, peer.page->text};
        if (state != State::Running) continue;
        if (is_gone) return Loss{RankId(rank), true, false, peer.page->text};
        if (hangs(peer)) return Loss{RankId(rank), false, true, peer.page->text};
    }
    return std::nullopt;
}

void Liveness::awaitOthers(std::int64_t milliseconds) {
    const timespec pause{0, 20'000'000};
    for (std::int64_t waited = 0; waited < milliseconds; waited += 20) {
        bool all = true;
        for (std::size_t rank = 0; rank < m_peers.size(); ++rank) {
            if (rank == static_cast<std::size_t>(m_rank)) continue;
            Peer& peer = m_peers[rank];
            if (open(peer, static_cast<std::int64_t>(rank)) && peer.page->state == State::Running &&
                !gone(peer))
                all = false;
        }
        if (all) return;
        ::nanosleep(&pause, nullptr);
    }
}

bool Liveness::isLowestAlive() {
    for (std::int64_t rank = 0; rank < m_rank; ++rank) {
        Peer& peer = m_peers[static_cast<std::size_t>(rank)];
        if (!open(peer, rank)) continue;
        if (peer.page->state != State::Running || !gone(peer)) return false;
    }
    return true;
}

std::int64_t Liveness::processOf(const std::filesystem::path& directory, std::int64_t rank) {
    const int descriptor = ::open(file(directory, rank).c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return 0;
    Page page;
    const ssize_t n = ::pread(descriptor, &page, sizeof page, 0);
    ::close(descriptor);
    return n == static_cast<ssize_t>(sizeof page) ? page.process : 0;
}

}  // namespace piper
