// SPDX-License-Identifier: Apache-2.0
#include "app/worker/worker.h"

int main(int argc, char** argv) {
    const piper::ParsedOptions parsed = piper::parseOptions(argc, argv);
    return parsed.exit_status ? *parsed.exit_status : piper::runWorker(parsed.options);
}
