// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_sftp.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "sessions/display_text.h"
#include "sessions/job_directory.h"

namespace piper {
namespace {

constexpr std::uint32_t kRequest = 32768;
constexpr std::size_t kMostInFlight = 64;
constexpr std::size_t kMostFiles = 200000;  ///< of one directory

std::string_view reason(int code) {
    switch (code) {
        case SSH_FX_NO_SUCH_FILE:
        case SSH_FX_NO_SUCH_PATH:
            return "no such file or directory";
        case SSH_FX_PERMISSION_DENIED:
            return "permission denied";
        case SSH_FX_BAD_MESSAGE:
            return "the host answers nonsense";
        case SSH_FX_NO_CONNECTION:
        case SSH_FX_CONNECTION_LOST:
            return "the connection was lost";
        case SSH_FX_OP_UNSUPPORTED:
            return "the host cannot do it";
        case SSH_FX_WRITE_PROTECT:
            return "write protected";
        default:
            return "the host reports a failure";
    }
}

/// One open file and its requests in flight, in order of their offsets.
class PipelinedRead {
public:
    PipelinedRead(SshLink& link, sftp_file file, std::int64_t begin, std::int64_t end)
        : m_link(link), m_file(file), m_next(begin), m_done(begin), m_end(end) {
        sftp_file_set_nonblocking(file);
    }
    ~PipelinedRead() {
        const SshLink::Lock held = m_link.lock();
        sftp_close(m_file);
    }
    PipelinedRead(const PipelinedRead&) = delete;
    PipelinedRead& operator=(const PipelinedRead&) = delete;

    [[nodiscard]] std::int64_t done() const { return m_done; }

    /// The next bytes, in `buffer`; 0 at the end, negative for a fault.
    int next(std::vector<char>& buffer) {
        SshLink::Lock held = m_link.lock();
        if (!request()) return -1;
        if (m_in_flight.empty()) return 0;
        const Request first = m_in_flight.front();
        const int n = await(held, buffer, first);
        m_in_flight.pop_front();
        if (n <= 0) return n;
        m_done += n;
        if (static_cast<std::uint32_t>(n) == first.length)
            m_window = std::min(m_window * 2, kMostInFlight);
        else if (!restart(held, buffer))
            return -1;
        return n;
    }

private:
    struct Request {
        std::uint32_t id, length;
    };

    bool request() {
        while (m_in_flight.size() < m_window && m_next < m_end) {
            const auto length =
                static_cast<std::uint32_t>(std::min<std::int64_t>(kRequest, m_end - m_next));
            if (m_in_flight.empty()) sftp_seek64(m_file, static_cast<std::uint64_t>(m_next));
            const int id = sftp_async_read_begin(m_file, length);
            if (id < 0) return false;
            m_in_flight.push_back({static_cast<std::uint32_t>(id), length});
            m_next += length;
        }
        return true;
    }

    int await(SshLink::Lock& held, std::vector<char>& buffer, Request request) {
        for (;;) {
            const int n = sftp_async_read(m_file, buffer.data(), request.length, request.id);
            if (n != SSH_AGAIN) return n;
            if (!m_link.alive()) return -1;
            m_link.wait(held, 1000);
        }
    }

    /// A reply was short (a file that ends here, or is no plain file): what was asked for beyond
    /// it stands at wrong offsets.
    bool restart(SshLink::Lock& held, std::vector<char>& buffer) {
        while (!m_in_flight.empty()) {
            if (await(held, aside(buffer), m_in_flight.front()) < 0) return false;
            m_in_flight.pop_front();
        }
        m_next = m_done;
        m_window = 1;
        return true;
    }

    std::vector<char>& aside(const std::vector<char>& like) {
        m_aside.resize(like.size());
        return m_aside;
    }

    SshLink& m_link;
    sftp_file m_file;
    std::int64_t m_next, m_done, m_end;
    std::size_t m_window = 1;
    std::deque<Request> m_in_flight;
    std::vector<char> m_aside;
};

}  // namespace

Result<std::unique_ptr<Sftp>> Sftp::open(std::shared_ptr<SshLink> link) {
    std::unique_ptr<Sftp> out(new Sftp(std::move(link)));
    SshLink& shared = *out->m_link;
    const SshLink::Lock held = shared.lock();
    if (!shared.alive()) return shared.lost();
    out->m_sftp = sftp_new(shared.session());
    if (out->m_sftp != nullptr && sftp_init(out->m_sftp) == SSH_OK) return out;
    if (!shared.alive()) return shared.lost();
    Error error = fail(ErrorCode::Unsupported, "{} offers no SFTP: {}", shared.target().address(),
                       sshErrorText(shared.session()));
    error.hint = "its sshd_config needs a line 'Subsystem sftp internal-sftp'";
    return error;
}

Sftp::~Sftp() {
    const SshLink::Lock held = m_link->lock();
    if (m_sftp != nullptr) sftp_free(m_sftp);
}

Error Sftp::fault(std::string_view what, const std::string& path) const {
    if (!m_link->alive()) return m_link->lost();
    const int code = sftp_get_error(m_sftp);
    const bool missing = code == SSH_FX_NO_SUCH_FILE || code == SSH_FX_NO_SUCH_PATH;
    Error error =
        fail(missing ? ErrorCode::NotFound : ErrorCode::Io, "cannot {}: {}", what, reason(code));
    error.where = m_link->target().alias + ":" + displayLine(path);
    return error;
}

Result<std::int64_t> Sftp::sizeOf(const sftp_attributes_struct& attributes,
                                  std::string_view path) const {
    if (std::in_range<std::int64_t>(attributes.size))
        return static_cast<std::int64_t>(attributes.size);
    Error error = fail(ErrorCode::External, "the host says that it has {} bytes: no file has",
                       attributes.size);
    error.where = m_link->target().alias + ":" + displayLine(path);
    return error;
}

Result<std::int64_t> Sftp::size(const std::string& path) {
    const SshLink::Lock held = m_link->lock();
    const std::unique_ptr<sftp_attributes_struct, decltype(&sftp_attributes_free)> attributes(
        sftp_stat(m_sftp, path.c_str()), sftp_attributes_free);
    if (attributes == nullptr) return fault("read", path);
    return sizeOf(*attributes, path);
}

Result<std::vector<RemoteFile>> Sftp::list(const std::string& path) {
    const SshLink::Lock held = m_link->lock();
    sftp_dir directory = sftp_opendir(m_sftp, path.c_str());
    if (directory == nullptr) return fault("list", path);
    std::vector<RemoteFile> files;
    Status status;
    while (sftp_attributes entry = sftp_readdir(m_sftp, directory)) {
        const std::string name = entry->name != nullptr ? entry->name : "";
        const bool is_directory = entry->type == SSH_FILEXFER_TYPE_DIRECTORY;
        const Result<std::int64_t> size =
            is_directory ? Result<std::int64_t>(0) : sizeOf(*entry, path + "/" + name);
        sftp_attributes_free(entry);
        if (!size.ok()) status = size.error();
        if (name == "." || name == "..") continue;
        if (!isPlainFileName(name))
            status = fail(ErrorCode::External,
                          "{} lists a file named '{}', which is no file name; "
                          "nothing of this directory is used",
                          m_link->target().address(), displayLine(name, 120));
        if (files.size() == kMostFiles)
            status = fail(ErrorCode::External, "{} lists more than {} files in one directory",
                          m_link->target().address(), kMostFiles);
        if (!status.ok()) break;
        files.push_back({name, *size, is_directory});
    }
    const bool whole = sftp_dir_eof(directory) != 0;
    sftp_closedir(directory);
    PIPER_TRY(status);
    if (!whole) return fault("list", path);
    std::sort(files.begin(), files.end(),
              [](const RemoteFile& a, const RemoteFile& b) { return a.name < b.name; });
    return files;
}

Result<std::int64_t> Sftp::read(const std::string& path, std::int64_t begin, std::int64_t end,
                                const Sink& sink, const std::stop_token& stop) {
    sftp_file file = nullptr;
    {
        const SshLink::Lock held = m_link->lock();
        if (!m_link->alive()) return m_link->lost();
        file = sftp_open(m_sftp, path.c_str(), O_RDONLY, 0);
        if (file == nullptr) return fault("read", path);
    }
    PipelinedRead reading(*m_link, file, begin, end);
    std::vector<char> buffer(kRequest);
    for (;;) {
        if (stop.stop_requested()) return fail(ErrorCode::Cancelled, "reading was stopped");
        const int n = reading.next(buffer);
        if (n == 0) return reading.done();
        if (n < 0) {
            const SshLink::Lock held = m_link->lock();
            return fault("read", path);
        }
        PIPER_TRY(sink({buffer.data(), static_cast<std::size_t>(n)}));
    }
}

}  // namespace piper
