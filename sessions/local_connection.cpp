// SPDX-License-Identifier: Apache-2.0
#include "sessions/local_connection.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "sessions/process.h"

namespace piper {
namespace {

constexpr std::size_t kOutputLimit = 16U << 20;  ///< bytes of a command's output that are kept

Error ioError(std::string_view what, const std::string& path) {
    Error error = fail(ErrorCode::Io, "{}: {}", what, std::strerror(errno));
    error.where = path;
    return error;
}

void cut(std::string& text, bool& truncated) {
    if (text.size() <= kOutputLimit) return;
    text.resize(kOutputLimit);
    truncated = true;
}

class LocalCommand final : public RunningCommand {
public:
    explicit LocalCommand(ChildProcess child) : m_child(std::move(child)) {}

    Result<std::string> read() override {
        std::string text;
        m_child.readAvailable(text, text);
        return text;
    }
    Result<std::optional<int>> poll() override { return m_child.poll(); }
    Status cancel(int grace_ms) override { return m_child.cancel(grace_ms); }

private:
    ChildProcess m_child;
};

class LocalConnection final : public Connection {
public:
    std::string_view label() const override { return "local"; }
    bool isLocal() const override { return true; }

    Result<CommandResult> run(const std::vector<std::string>& argv, std::stop_token stop) override {
        PIPER_ASSIGN(ChildProcess child, ChildProcess::start(argv, ""));
        CommandResult result;
        while (child.readAvailable(result.output, result.error_output)) {
            cut(result.output, result.truncated);
            cut(result.error_output, result.truncated);
            if (stop.stop_requested()) {
                PIPER_TRY(child.cancel(2000));
                return fail(ErrorCode::Cancelled, "'{}' was stopped", argv[0]);
            }
            child.waitReadable(50);
        }
        while (!child.poll()) child.waitReadable(5);
        result.exit_status = *child.poll();
        return result;
    }

    Result<std::unique_ptr<RunningCommand>> start(const std::vector<std::string>& argv,
                                                  const std::string& directory) override {
        PIPER_ASSIGN(ChildProcess child, ChildProcess::start(argv, directory));
        return std::unique_ptr<RunningCommand>(std::make_unique<LocalCommand>(std::move(child)));
    }

    Result<std::string> readFile(const std::string& path, std::int64_t limit_bytes,
                                 std::int64_t offset_bytes) override {
        std::ifstream in(path, std::ios::binary);
        if (!in) {
            Error error = ioError("cannot read", path);
            if (errno == ENOENT) error.code = ErrorCode::NotFound;
            return error;
        }
        if (offset_bytes > 0) in.seekg(offset_bytes);
        std::string text(static_cast<std::size_t>(limit_bytes), '\0');
        in.read(text.data(), limit_bytes);
        text.resize(static_cast<std::size_t>(in.gcount()));
        if (in.bad()) return ioError("cannot read", path);
        return text;
    }

    Status writeFile(const std::string& path, std::string_view content, bool executable) override {
        const std::string temporary = path + ".part";
        {
            std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
            if (!out) return ioError("cannot write", temporary);
            out.write(content.data(), static_cast<std::streamsize>(content.size()));
            out.close();
            if (!out) {
                Error error = ioError("cannot write", temporary);
                ::unlink(temporary.c_str());
                return error;
            }
        }
        if (executable) ::chmod(temporary.c_str(), 0700);
        if (::rename(temporary.c_str(), path.c_str()) != 0)
            return ioError("cannot rename to", path);
        return {};
    }

    Status makeDirectory(const std::string& path) override {
        std::error_code error;
        std::filesystem::create_directories(path, error);
        if (error) {
            Error e = fail(ErrorCode::Io, "cannot make the directory: {}", error.message());
            e.where = path;
            return e;
        }
        if (::chmod(path.c_str(), 0700) != 0) return ioError("cannot make private", path);
        return {};
    }

    Result<std::vector<RemoteFile>> list(const std::string& path) override {
        std::vector<RemoteFile> files;
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
            std::error_code ignored;
            const bool directory = entry.is_directory(ignored);
            files.push_back({entry.path().filename().string(),
                             directory ? 0 : static_cast<std::int64_t>(entry.file_size(ignored)),
                             directory});
        }
        if (error) {
            Error e = fail(
                error == std::errc::no_such_file_or_directory ? ErrorCode::NotFound : ErrorCode::Io,
                "cannot list: {}", error.message());
            e.where = path;
            return e;
        }
        std::sort(files.begin(), files.end(),
                  [](const RemoteFile& a, const RemoteFile& b) { return a.name < b.name; });
        return files;
    }

    Status fetch(const std::string& remote, const std::filesystem::path& local,
                 const TransferProgress& progress, std::stop_token stop) override {
        return copy(remote, local, progress, stop);
    }

    Status send(const std::filesystem::path& local, const std::string& remote, bool executable,
                const TransferProgress& progress, std::stop_token stop) override {
        PIPER_TRY(copy(local, remote, progress, stop));
        if (::chmod(remote.c_str(), executable ? 0700 : 0600) != 0)
            return ioError("cannot set the mode of", remote);
        return {};
    }

private:
    static Status copy(const std::filesystem::path& remote, const std::filesystem::path& local,
                       const TransferProgress& progress, const std::stop_token& stop) {
        std::error_code error;
        const auto size = static_cast<std::int64_t>(std::filesystem::file_size(remote, error));
        if (error) return ioError("cannot read", remote);
        std::ifstream in(remote, std::ios::binary);
        const std::filesystem::path part = local.string() + ".part";
        std::ofstream out(part, std::ios::binary | std::ios::trunc);
        if (!out) return ioError("cannot write", part.string());
        std::vector<char> buffer(1U << 20);
        std::int64_t done = 0;
        while (in && done < size) {
            if (stop.stop_requested()) return fail(ErrorCode::Cancelled, "fetch stopped");
            in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
            out.write(buffer.data(), in.gcount());
            done += in.gcount();
            if (progress) progress(done, size);
        }
        out.close();
        if (!out) return ioError("cannot write", part.string());
        std::filesystem::rename(part, local, error);
        if (error) return ioError("cannot rename to", local.string());
        return {};
    }
};

}  // namespace

std::unique_ptr<Connection> openLocalConnection() {
    return std::make_unique<LocalConnection>();
}

}  // namespace piper
