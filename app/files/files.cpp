// SPDX-License-Identifier: Apache-2.0
#include "app/files/files.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "core/base/json.h"
#include "core/base/read_all.h"

namespace piper::app {
namespace {

Error fileError(std::string_view what, const std::filesystem::path& path, int code) {
    Error error = fail(code == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "{}: {}", what,
                       std::strerror(code));
    error.where = path.string();
    return error;
}

std::filesystem::path programDirectory() {
    std::array<char, 4096> buffer{};
    const ssize_t n = ::readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
    if (n <= 0) return ".";
    return std::filesystem::path(std::string(buffer.data(), static_cast<std::size_t>(n)))
        .parent_path();
}

}  // namespace

Result<std::string> readTextFile(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return fileError("cannot read", path, EISDIR);
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    if (!in) return fileError("cannot read", path, errno);
    std::optional<std::string> text = readAll(in);
    if (!text) return fileError("cannot read", path, errno);
    return *std::move(text);
}

Result<TemporaryDirectory> TemporaryDirectory::make() {
    std::string name = (std::filesystem::temp_directory_path() / "piper.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return fileError("cannot make a directory", name, errno);
    TemporaryDirectory out;
    out.m_path = name;
    return out;
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : m_path(std::exchange(other.m_path, {})) {}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    if (!m_path.empty()) std::filesystem::remove_all(m_path, ignored);
}

Status writeTextFile(const std::filesystem::path& path, std::string_view content) {
    const std::filesystem::path part = path.string() + ".part";
    errno = 0;
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    if (!out) return fileError("cannot write", path, errno);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    std::error_code error;
    if (!out) {
        const int code = errno != 0 ? errno : EIO;
        std::filesystem::remove(part, error);
        return fileError("cannot write", path, code);
    }
    std::filesystem::rename(part, path, error);
    if (error) return fileError("cannot write", path, error.value());
    return {};
}

Result<ModelSpec> loadModel(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::filesystem::path file =
        std::filesystem::is_directory(path, ignored) ? path / "config.json" : path;
    PIPER_ASSIGN(const std::string text, readTextFile(file));
    PIPER_ASSIGN(ModelSpec model, readModelText(text, file.string()));
    // A Hugging Face config carries no name: the file's, or its directory's.
    if (model.name.empty())
        model.name =
            (file.stem() == "config" ? file.parent_path().filename() : file.stem()).string();
    return model;
}

Result<ClusterSpec> loadCluster(const std::string& path_or_name) {
    std::error_code ignored;
    const std::size_t colon = path_or_name.rfind(':');
    if (!std::filesystem::exists(path_or_name, ignored) && colon != std::string::npos) {
        std::int64_t nodes = 0;
        const char* end = path_or_name.data() + path_or_name.size();
        const auto parsed = std::from_chars(path_or_name.data() + colon + 1, end, nodes);
        if (parsed.ec == std::errc() && parsed.ptr == end && nodes >= 1)
            return defaultCluster(path_or_name.substr(0, colon), nodes);
    }
    Result<std::string> text = readTextFile(path_or_name);
    if (!text.ok()) {
        Error error = std::move(text).error();
        error.hint =
            "give a cluster file, or DEVICE:NODES with a catalogue device, e.g. 'H100 SXM:8'";
        return error;
    }
    return readClusterText(*text, path_or_name);
}

Result<Plan> loadPlan(const std::filesystem::path& path) {
    PIPER_ASSIGN(const std::string text, readTextFile(path));
    PIPER_ASSIGN(Json json, parseJson(text, path.string()));
    const auto read = [&](const std::string& reference) -> Result<std::string> {
        const std::filesystem::path file(reference);
        return readTextFile(file.is_absolute() ? file : path.parent_path() / file);
    };
    PIPER_ASSIGN(const Json resolved, resolvePlanReferences(std::move(json), read));
    return readPlan(resolved, path.string());
}

std::filesystem::path siblingProgram(std::string_view name) {
    return programDirectory() / name;
}

Result<std::filesystem::path> bundledExample(std::string_view name) {
    // build/<preset>/bin -> source tree; <prefix>/bin -> <prefix>/share.
    const std::filesystem::path bin = programDirectory();
    const std::filesystem::path places[] = {
        bin.parent_path() / "share" / "piper-workbench" / "examples",
        bin.parent_path().parent_path().parent_path() / "packaging" / "examples"};
    std::error_code ignored;
    if (const char* given = std::getenv("PIPER_EXAMPLES"); given != nullptr)
        return std::filesystem::path(given) / name;
    for (const std::filesystem::path& place : places)
        if (std::filesystem::exists(place / name, ignored)) return place / name;
    Error error = fail(ErrorCode::NotFound, "the bundled example '{}' is not there", name);
    error.hint = "set PIPER_EXAMPLES to the directory packaging/examples";
    return error;
}

}  // namespace piper::app
