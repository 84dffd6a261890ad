// SPDX-License-Identifier: Apache-2.0
#include "app/worker/status_file.h"

#include "app/files/files.h"
#include "core/base/json.h"

namespace piper {

Status writeStatus(const std::filesystem::path& job_directory, const JobStatus& status) {
    return app::writeTextFile(
        job_directory / "status.json",
        jobStatusJson(status).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace piper
