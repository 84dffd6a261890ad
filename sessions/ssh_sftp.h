// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/libssh.h>
#include <libssh/sftp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sessions/connection.h"
#include "sessions/ssh_link.h"

namespace piper {

/// Files of the host over a channel of its own, read with many requests in flight.
class Sftp {
public:
    /// Errors: Unsupported when the host offers no SFTP.
    [[nodiscard]] static Result<std::unique_ptr<Sftp>> open(std::shared_ptr<SshLink> link);
    ~Sftp();
    Sftp(const Sftp&) = delete;
    Sftp& operator=(const Sftp&) = delete;

    /// Errors: NotFound; Io with the host's reason.
    [[nodiscard]] Result<std::int64_t> size(const std::string& path);
    [[nodiscard]] Result<std::vector<RemoteFile>> list(const std::string& path);
    using Sink = std::function<Status(std::string_view)>;
    /// Bytes from `begin` up to `end` or the end of the file, in order. Returns where it ended.
    [[nodiscard]] Result<std::int64_t> read(const std::string& path, std::int64_t begin,
                                            std::int64_t end, const Sink& sink,
                                            const std::stop_token& stop = {});
    [[nodiscard]] const std::shared_ptr<SshLink>& link() const { return m_link; }

private:
    explicit Sftp(std::shared_ptr<SshLink> link) : m_link(std::move(link)) {}
    /// Errors: External for what no file's size can be.
    [[nodiscard]] Result<std::int64_t> sizeOf(const sftp_attributes_struct& attributes,
                                              std::string_view path) const;
    [[nodiscard]] Error fault(std::string_view what, const std::string& path) const;

    std::shared_ptr<SshLink> m_link;
    sftp_session m_sftp = nullptr;
};

}  // namespace piper
