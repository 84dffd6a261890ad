// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_transfer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "sessions/descriptor.h"
#include "sessions/display_text.h"
#include "sessions/packed_transfer.h"
#include "sessions/sha256.h"
#include "sessions/shell_quote.h"
#include "sessions/ssh_exec.h"
#include "sessions/ssh_sftp.h"

namespace piper {
namespace {

Error localError(std::string_view what, const std::filesystem::path& path) {
    Error error = fail(ErrorCode::Io, "cannot {}: {}", what, std::strerror(errno));
    error.where = path.string();
    return error;
}

/// SHA-256 of the first `bytes` of a file, by the quicker of the host's programs. Only a file that
/// is longer, or grows meanwhile, goes through a pipe, which costs as much as the hash.
std::string hashScript(const std::string& path, std::int64_t bytes) {
    return fmt::format(
        "f={0}; [ -r \"$f\" ] || exit 4\n"
        "h() {{ if command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r\n"
        "else sha256sum; fi; }}\n"
        "whole() {{ n=$(wc -c < \"$f\"); [ $((n)) -eq {1} ]; }}\n"
        "if whole && o=$(h < \"$f\") && whole; then echo \"$o\"\n"
        "else head -c {1} < \"$f\" | h; fi\n",
        shellQuote(path), bytes);
}

/// The hash in what hashScript printed. Errors: Unsupported when the host has neither program.
Result<std::string> readHash(const std::string& output, const SshLink& link) {
    const std::string word = output.substr(0, output.find_first_of(" \n"));
    if (word.size() == 64 && word.find_first_not_of("0123456789abcdef") == std::string::npos)
        return word;
    Error error = fail(ErrorCode::Unsupported, "{} cannot give the SHA-256 of a file: '{}'",
                       link.target().address(), displayLine(output, 120));
    error.hint = "it needs openssl or sha256sum (coreutils)";
    return error;
}

Status writeAll(int fd, std::string_view bytes, const std::filesystem::path& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return localError("write", path);
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

/// The hash over what an earlier try left in `part`.
Status addPart(Sha256& hash, const std::filesystem::path& part) {
    std::ifstream in(part, std::ios::binary);
    std::vector<char> buffer(1U << 18);
    while (in) {
        in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        hash.add({buffer.data(), static_cast<std::size_t>(in.gcount())});
    }
    return in.bad() ? localError("read", part) : Status();
}

/// A transfer that ends sooner than this is not worth asking the host what packing would bring.
constexpr double kWorthAskingSeconds = 1.0;
/// gzip -1 of one core is slower than this; a faster link gains nothing.
constexpr double kFastestPacking = 250e6;  ///< bytes/s
constexpr std::int64_t kFirstPiece = 256 << 10, kProbe = 8 << 20;

/// Bytes from `at` to `total` of the file into the sink, packed on the way where that is quicker:
/// the first pieces come as they are and tell how fast the link is. Returns where it ended.
Result<std::int64_t> receiveRest(Sftp& sftp, const std::string& remote, std::int64_t at,
                                 std::int64_t total, const Sftp::Sink& sink,
                                 const std::stop_token& stop) {
    using Clock = std::chrono::steady_clock;
    const std::int64_t begin = at;
    BytesPerSecond rate;
    double spent = 0;
    for (std::int64_t piece = kFirstPiece;
         at < total && at - begin < kProbe && spent < kWorthAskingSeconds / 2; piece *= 2) {
        const std::int64_t until = std::min(total, at + piece);
        const Clock::time_point asked = Clock::now();
        PIPER_ASSIGN(const std::int64_t end, sftp.read(remote, at, until, sink, stop));
        if (end != until) return end;
        const double seconds = std::chrono::duration<double>(Clock::now() - asked).count();
        rate = BytesPerSecond(static_cast<double>(until - at) / std::max(seconds, 1e-9));
        spent += seconds;
        at = until;
    }
    const std::shared_ptr<SshLink>& link = sftp.link();
    const bool may_pay =
        !link->target().compression &&
        rate.value<kFastestPacking&& static_cast<double>(total - at)> kWorthAskingSeconds *
            rate.value;
    if (may_pay) {
        const std::optional<PackingSample> sample = samplePacking(link, remote, at, total, stop);
        if (sample && packingPays(*sample, rate)) {
            std::int64_t came = at;
            Status stored;
            const Status packed = fetchPacked(
                link, remote, at, total,
                [&](std::string_view bytes) {
                    stored = sink(bytes);
                    if (stored.ok()) came += static_cast<std::int64_t>(bytes.size());
                    return stored;
                },
                stop);
            if (packed.ok()) return total;
            if (!stored.ok()) return stored.error();
            if (packed.error().code == ErrorCode::Cancelled) return packed.error();
            at = came;  // the rest as it is, when the connection still stands
        }
    }
    return sftp.read(remote, at, total, sink, stop);
}

/// Brings the bytes from the end of `part` to `total`. Returns the hash of all of them.
Result<std::string> receive(Sftp& sftp, const std::string& remote,
                            const std::filesystem::path& part, std::int64_t total,
                            const TransferProgress& progress, const std::stop_token& stop) {
    std::error_code ignored;
    const std::uintmax_t left = std::filesystem::file_size(part, ignored);
    std::int64_t done = ignored ? 0 : static_cast<std::int64_t>(left);
    if (done > total) {
        std::filesystem::remove(part, ignored);
        done = 0;
    }
    Sha256 hash;
    if (done > 0) PIPER_TRY(addPart(hash, part));
    const Descriptor out(::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (out.get() < 0) return localError("write", part);
    std::int64_t at = done;
    const auto sink = [&](std::string_view bytes) -> Status {
        hash.add(bytes);
        PIPER_TRY(writeAll(out.get(), bytes, part));
        at += static_cast<std::int64_t>(bytes.size());
        if (progress) progress(at, total);
        return {};
    };
    PIPER_ASSIGN(const std::int64_t end, receiveRest(sftp, remote, done, total, sink, stop));
    if (end != total)
        return fail(ErrorCode::External, "{} became shorter while it was fetched: {} of {} bytes",
                    displayLine(remote), end, total);
    return hash.take();
}

/// Errors: Io when the disk here has no room for what is to come: a host may say any size.
Status checkRoom(const std::filesystem::path& part, std::int64_t total) {
    std::error_code unknown;
    const auto disk =
        std::filesystem::space(part.parent_path().empty() ? "." : part.parent_path(), unknown);
    if (unknown) return {};
    const std::uintmax_t here = std::filesystem::file_size(part, unknown);
    const std::uintmax_t lacking = static_cast<std::uintmax_t>(total) - (unknown ? 0 : here);
    if ((!unknown && here >= static_cast<std::uintmax_t>(total)) || lacking <= disk.available)
        return {};
    Error error = fail(ErrorCode::Io, "{} bytes are to come, and the disk here has {} left",
                       lacking, disk.available);
    error.where = part.string();
    error.hint = "make room, or collect into a file on another disk";
    return error;
}

Result<std::string> finishHash(SshExec& exec) {
    std::string output, error;
    for (bool going = true; going;) {
        PIPER_ASSIGN(going, exec.pump(output, error, 1000));
    }
    return readHash(output.empty() ? error : output, *exec.link());
}

}  // namespace

Status fetchFile(const std::shared_ptr<SshLink>& link, const std::string& remote,
                 const std::filesystem::path& local, const TransferProgress& progress,
                 const std::stop_token& stop) {
    const std::filesystem::path part = local.string() + ".part";
    PIPER_ASSIGN(const auto sftp, Sftp::open(link));
    for (int attempt = 0;; ++attempt) {
        PIPER_ASSIGN(const std::int64_t total, sftp->size(remote));
        PIPER_TRY(checkRoom(part, total));
        // The host reads and hashes the file while it comes over.
        PIPER_ASSIGN(const auto hashing, SshExec::start(link, hashScript(remote, total)));
        PIPER_ASSIGN(const std::string came, receive(*sftp, remote, part, total, progress, stop));
        PIPER_ASSIGN(const std::string sent, finishHash(*hashing));
        if (came == sent) break;
        std::error_code ignored;
        std::filesystem::remove(part, ignored);
        if (attempt == 0) continue;  // a part of an older file, most likely
        Error error = fail(ErrorCode::External,
                           "what came is not what the host has: SHA-256 {} "
                           "here, {} there",
                           came, sent);
        error.where = link->target().alias + ":" + displayLine(remote);
        error.hint = "the file may be changing; fetch it again when its job has ended";
        return error;
    }
    if (::rename(part.c_str(), local.c_str()) != 0) return localError("rename to", local);
    return {};
}

std::string writeScript(const std::string& path, std::int64_t bytes, bool executable) {
    return fmt::format(
        "p={0}; t=$p.part; umask 077\n"
        "cat > \"$t\" || {{ rm -f -- \"$t\"; exit 5; }}\n"
        "n=$(wc -c < \"$t\"); n=$((n))\n"
        "[ $n -eq {1} ] || {{ rm -f -- \"$t\"; echo \"only $n of {1} bytes arrived\" >&2; exit 5; "
        "}}\n"
        "chmod {2} -- \"$t\" && mv -f -- \"$t\" \"$p\"\n",
        shellQuote(path), bytes, executable ? "700" : "600");
}

Status scriptStatus(const Result<CommandResult>& r, std::string_view what,
                    const std::string& where) {
    if (!r.ok()) return r.error();
    if (r->exit_status == 0) return {};
    Error error = fail(ErrorCode::Io, "cannot {}: {}", what,
                       displayLine(r->error_output.empty() ? r->output : r->error_output));
    error.where = displayLine(where);
    return error;
}

namespace {

/// Bytes of `part` on the host that are how the file begins.
Result<std::int64_t> alreadyThere(const std::shared_ptr<SshLink>& link,
                                  const std::filesystem::path& local, const std::string& part,
                                  std::int64_t total, const std::stop_token& stop) {
    PIPER_ASSIGN(const CommandResult there,
                 runScript(link,
                           fmt::format("f={}; [ -f \"$f\" ] && wc -c < \"$f\" || echo 0\n",
                                       shellQuote(part)),
                           {}, stop));
    const std::int64_t left = std::atoll(there.output.c_str());
    if (left <= 0 || left > total) return std::int64_t{0};
    PIPER_ASSIGN(const CommandResult r, runScript(link, hashScript(part, left), {}, stop));
    PIPER_ASSIGN(const std::string remote_hash, readHash(r.output, *link));
    PIPER_ASSIGN(const std::string local_hash, sha256OfFile(local, left));
    return remote_hash == local_hash ? left : std::int64_t{0};
}

Error didNotArrive(const std::string& where, const std::string& here, const std::string& there) {
    Error error =
        fail(ErrorCode::External, "did not arrive whole: SHA-256 {} here, {} there", here, there);
    error.where = where;
    error.hint =
        "sent again, it may arrive whole; if not, the host's file system changes files, or its "
        "openssl or sha256sum does not tell the truth: ask its administrator";
    return error;
}

}  // namespace

Status sendFile(const std::shared_ptr<SshLink>& link, const std::filesystem::path& local,
                const std::string& remote, bool executable, const TransferProgress& progress,
                const std::stop_token& stop) {
    const std::string where = link->target().alias + ":" + remote;
    std::error_code fault;
    const auto total = static_cast<std::int64_t>(std::filesystem::file_size(local, fault));
    if (fault) return localError("read", local);
    PIPER_ASSIGN(const std::string hash, sha256OfFile(local));
    const std::string part = remote + ".part";
    PIPER_ASSIGN(std::int64_t done, alreadyThere(link, local, part, total, stop));
    std::ifstream in(local, std::ios::binary);
    in.seekg(done);
    PIPER_ASSIGN(const auto exec,
                 SshExec::start(link, fmt::format("umask 077; exec cat {} {}\n",
                                                  done > 0 ? ">>" : ">", shellQuote(part))));
    std::vector<char> buffer(1U << 18);
    while (in && done < total) {
        in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        const Status sent =
            exec->write({buffer.data(), static_cast<std::size_t>(in.gcount())}, stop);
        if (!sent.ok()) {
            if (sent.error().code == ErrorCode::Cancelled) return sent;
            break;  // cat says why, below
        }
        done += in.gcount();
        if (progress) progress(done, total);
    }
    PIPER_TRY(exec->closeInput());
    CommandResult written;
    for (bool going = true; going;) {
        PIPER_ASSIGN(going, exec->pump(written.output, written.error_output, 1000));
    }
    written.exit_status = exec->exitStatus().value_or(255);
    PIPER_TRY(scriptStatus(written, "write", where));
    PIPER_ASSIGN(const CommandResult r, runScript(link, hashScript(part, total), {}, stop));
    PIPER_ASSIGN(const std::string came, readHash(r.output, *link));
    if (came != hash) {
        (void)runScript(link, "rm -f -- " + shellQuote(part) + "\n");
        return didNotArrive(where, hash, came);
    }
    return scriptStatus(runScript(link, fmt::format("chmod {} -- {} && mv -f -- {} {}\n",
                                                    executable ? "700" : "600", shellQuote(part),
                                                    shellQuote(part), shellQuote(remote))),
                        "finish", where);
}

}  // namespace piper
