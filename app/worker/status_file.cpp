// SPDX-License-Identifier: Apache-2.0
#include "app/worker/status_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/base/json.h"

namespace piper {

Status writeStatus(const std::filesystem::path& job_directory, const JobStatus& status) {
    Json json;
    json["format_version"] = 1;
    json["state"] = status.state;
    json["step"] = status.step;
    json["steps"] = status.steps;
    json["loss"] = status.loss;
    json["tokens_per_second"] = status.tokens_per_second;
    json["message"] = status.message;
    const std::filesystem::path path = job_directory / "status.json";
    const std::filesystem::path next = job_directory / "status.json.new";
    errno = 0;
    std::ofstream out(next, std::ios::trunc);
    out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(next, path, error);
    if (!out || error)
        return fail(ErrorCode::Io, "cannot write {}: {}", path.string(),
                    error        ? error.message()
                    : errno != 0 ? std::strerror(errno)
                                 : "the disk took less than was given");
    return {};
}

}  // namespace piper
